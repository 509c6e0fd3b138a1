"""One WebSocket: the shell around a session machine.

A reader and a sender task; deliveries come in from the hub on the same loop. Every input is followed by `_pump`:
frames go to the outbox, events become commands for the runtime.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from starlette.websockets import WebSocket, WebSocketDisconnect

from engine.api import BadReference, Sampling, Voice
from realtime import errors
from realtime.audio.encoder import make_encoder
from realtime.protocol import events
from realtime.protocol.session import SessionMachine
from realtime.runtime.delivery import Delivery, StreamClosed, UnitChunk
from realtime.runtime.mailbox import MailboxFull
from realtime.scheduler import job
from realtime.scheduler.policy import speech_limit_frames
from realtime.server.outbox import ClientTooSlow, Outbox

if TYPE_CHECKING:
    from realtime.server.hub import Hub

__all__ = ["Connection", "reference_name"]

log = logging.getLogger(__name__)

INTERNAL, TOO_SLOW = 1011, 4408

GOODBYE_S = 5.0
"""How long a close frame may wait behind data that the peer does not take."""

MAX_REASON_BYTES = 123
"""A WebSocket control frame holds no more."""


class Connection:
    def __init__(self, socket: WebSocket, hub: Hub, session: job.SessionId, machine: SessionMachine) -> None:
        self._socket, self._hub, self._session, self._machine = socket, hub, session, machine
        self._outbox = Outbox(hub.config.max_out_bytes, hub.config.stall_s)
        self._events: deque[events.SessionEvent] = deque()
        self._voice: Voice | None = None
        self._encoding: asyncio.Task[None] | None = None
        self._end: asyncio.Future[tuple[int, str] | None] = asyncio.get_running_loop().create_future()
        """Close code and reason, or None when the peer is gone already."""

    async def run(self) -> None:
        """From accepted socket to its end; never raises for what a peer does."""
        reader = asyncio.create_task(self._read(), name=f"read-{self._session}")
        sender = asyncio.create_task(self._send(), name=f"send-{self._session}")
        try:
            self._guarded(lambda: None)  # what the machine wants at connect
            goodbye = await self._end
        finally:
            # The engine learns of it first: whatever follows may take a while.
            self._hub.runtime.send(job.Close(self._session))
            tasks = [task for task in (reader, sender, self._encoding) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if goodbye is not None:
            await self._say_goodbye(*goodbye)

    async def _read(self) -> None:
        """Feed the machine until the peer is gone."""
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                frame = message.get("bytes")
                frame = message.get("text", "") if frame is None else frame
                self._guarded(partial(self._receive, frame))
                # Messages that are there already are received without a wait: a flood would hold the loop.
                await asyncio.sleep(0)
        except (WebSocketDisconnect, RuntimeError):
            log.debug("session %s: the peer is gone", self._session)
        finally:
            self._end_with(None)

    async def _send(self) -> None:
        """Send what is in the outbox until it is closed. Every failed send means one thing: the peer is gone."""
        try:
            self._end_with(await self._outbox.run(self._socket.send_bytes))
        except ClientTooSlow as error:
            self._drop(error)
        except (WebSocketDisconnect, RuntimeError):
            log.debug("session %s: the peer was gone before its messages", self._session)
        finally:
            self._end_with(None)

    def _drop(self, error: ClientTooSlow) -> None:
        if not self._end.done():
            self._hub.metrics.dropped.inc()
            log.info("session %s: dropped, %s", self._session, error)
        self._end_with((TOO_SLOW, str(error)))

    def _end_with(self, goodbye: tuple[int, str] | None) -> None:
        if not self._end.done():
            self._end.set_result(goodbye)

    async def _say_goodbye(self, code: int, reason: str) -> None:
        reason = reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self._socket.close(code, reason)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            log.debug("session %s: the peer was gone before its close", self._session)

    # ---- inputs --------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        self._guarded(partial(self._machine.tick, now))

    def drain(self) -> None:
        self._guarded(self._machine.drain)

    def give_up(self, fault: errors.StreamFault, close_code: int) -> None:
        """The server cannot go on with this session."""
        self._machine.give_up(fault, close_code, time.monotonic())
        self._pump()

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """What the engine's side made for this session, in stream order."""
        self._guarded(partial(self._take_all, deliveries))

    def _guarded(self, step: Callable[[], object]) -> None:
        """A fault of ours ends this session and no other, and is never silent."""
        try:
            step()
            self._pump()
        except Exception:
            log.exception("session %s failed", self._session)
            self.give_up(errors.Internal("a fault of the server"), INTERNAL)

    def _receive(self, frame: bytes | str) -> None:
        self._machine.receive(frame, time.monotonic())

    def _take_all(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._take(delivery)

    def _take(self, delivery: Delivery) -> None:
        now, machine = time.monotonic(), self._machine
        match delivery:
            case UnitChunk():
                self._hub.metrics.audio_s.inc(delivery.chunk.duration_ms / 1000)
                machine.audio(delivery.utterance, delivery.unit, delivery.chunk, _engine_parts_ms(delivery), now)
            case job.Warm():
                machine.warmed(delivery.voice.name)
            case job.UnitDone():
                machine.unit_done(delivery.utterance, delivery.unit, is_cut=delivery.is_cut)
            case job.MarkReached():
                machine.mark_reached(delivery.utterance, delivery.seq)
            case job.UtteranceDone():
                machine.utterance_done(delivery.utterance)
            case StreamClosed():
                machine.stream_closed(delivery.utterance, delivery.chunk, now)
            case job.Failed():
                machine.failed(delivery.utterance, delivery.code, delivery.message, now)

    # ---- machine -> outbox and runtime -----------------------------------------------------------------

    def _pump(self) -> None:
        self._carry_out()
        try:
            self._outbox.put(self._machine.frames())
        except ClientTooSlow as error:
            self._drop(error)

    def _carry_out(self) -> None:
        """Events in order; while a clip is being encoded, those for the engine wait behind it."""
        while True:
            for event in self._machine.events():
                if isinstance(event, events.Shut):
                    self._outbox.close(event.code, event.reason)
                elif isinstance(event, events.Finished):
                    self._hub.metrics.observe_stream(event.reason, event.ttfa_ms)
                else:
                    self._events.append(event)
            if self._encoding is not None or not self._events:
                return
            try:
                self._do(self._events.popleft())
            except MailboxFull as error:
                self._fail_stream(errors.Overloaded(f"the engine is behind: {error}"))

    def _do(self, event: events.SessionEvent) -> None:
        runtime, session = self._hub.runtime, self._session
        match event:
            case events.UseVoice(name=None, reference=events.Reference() as reference):
                self._encoding = asyncio.create_task(self._use_reference(reference), name=f"clone-{session}")
            case events.UseVoice(name=str() as name):
                self._use_voice(self._hub.voice(name))
            case events.Begin():
                self._begin(event)
            case events.Speak():
                max_frames = speech_limit_frames(event.text, runtime.engine.limits.frame_s)
                runtime.send(job.Speak(session, job.UtteranceId(event.utterance), event.unit, event.text, max_frames))
            case events.Mark():
                runtime.send(job.Mark(session, job.UtteranceId(event.utterance), event.seq))
            case events.End():
                runtime.send(job.End(session, job.UtteranceId(event.utterance)))
            case events.Cancel():
                self._hub.metrics.cancelled.inc()
                runtime.send(job.Cancel(session, job.UtteranceId(event.utterance)))
            case events.CloseStream():
                runtime.close_stream(session, job.UtteranceId(event.utterance))

    def _begin(self, event: events.Begin) -> None:
        runtime, session = self._hub.runtime, self._session
        utterance = job.UtteranceId(event.utterance)
        if event.new_stream:
            rate_hz = runtime.engine.limits.sample_rate_hz
            runtime.open_stream(session, utterance, partial(make_encoder, event.output, rate_hz))
        else:
            runtime.skip_to(session, utterance)
        sampling = Sampling(temperature=event.temperature, top_p=event.top_p, seed=event.seed)
        runtime.send(job.Begin(session, utterance, sampling, event.max_lead_s))

    def _use_voice(self, voice: Voice) -> None:
        if voice is not self._voice:
            self._hub.runtime.send(job.Open(self._session, voice))
            self._voice = voice

    async def _use_reference(self, reference: events.Reference) -> None:
        """Encode the clip, then go on with the events behind it. A bad clip fails the stream."""
        failure: Exception | None = None
        try:
            self._use_voice(await self._hub.clone(reference))
        except Exception as error:
            failure = error
        self._encoding = None
        self._guarded(partial(self._clip_done, failure))

    def _clip_done(self, failure: Exception | None) -> None:
        if isinstance(failure, BadReference):
            self._fail_stream(errors.BadReference(str(failure)))
        elif isinstance(failure, MailboxFull):
            self._fail_stream(errors.Overloaded(f"the engine is behind: {failure}"))
        elif failure is not None:
            raise failure

    def _fail_stream(self, fault: errors.StreamFault) -> None:
        self._machine.failed(None, fault.code, str(fault), time.monotonic())


def _engine_parts_ms(delivery: UnitChunk) -> dict[str, float] | None:
    """The time to first audio inside the engine, by phase; only the first chunk of an utterance has it."""
    times = delivery.times
    if times is None:
        return None
    parts = {
        "queue": times.queue_s,
        "prefill": times.prefill_s,
        "decode": times.decode_s,
        "vocode": times.vocode_s,
        "encode": delivery.encode_s,
    }
    return {name: round(seconds * 1000, 2) for name, seconds in parts.items()}


def reference_name(reference: events.Reference) -> str:
    """A stable name for a clip, so that the same clip is encoded once."""
    digest = hashlib.sha256(reference.audio + b"\0" + reference.text.encode("utf-8", "replace")).hexdigest()
    return f"clip-{digest[:16]}"
