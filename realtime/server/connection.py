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
from functools import partial
from typing import TYPE_CHECKING

from starlette.websockets import WebSocket, WebSocketDisconnect

from engine.api import BadReference, Sampling
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

TOO_SLOW = 4408


class Connection:
    def __init__(self, socket: WebSocket, hub: Hub, session: job.SessionId, machine: SessionMachine) -> None:
        self._socket, self._hub, self._session, self.machine = socket, hub, session, machine
        self._outbox = Outbox(hub.config.max_out_bytes, hub.config.stall_s)
        self._events: deque[events.SessionEvent] = deque()
        self._encoding: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[tuple[int, str]] | None = None

    async def run(self) -> None:
        """From accepted socket to its end; never raises for what a peer does."""
        self._sender = asyncio.create_task(self._outbox.run(self._socket.send_bytes), name=f"send-{self._session}")
        reader = asyncio.create_task(self._read(), name=f"read-{self._session}")
        try:
            self._pump()
            await asyncio.wait({self._sender, reader}, return_when=asyncio.FIRST_COMPLETED)
            await self._close_socket()
        finally:
            for task in (self._sender, reader, self._encoding):
                if task is not None:
                    task.cancel()
            self._hub.runtime.send(job.Close(self._session))
            await asyncio.gather(self._sender, reader, return_exceptions=True)

    async def _read(self) -> None:
        """Feed the machine until the peer is gone."""
        while True:
            try:
                message = await self._socket.receive()
            except (WebSocketDisconnect, RuntimeError):
                return
            if message["type"] != "websocket.receive":
                return
            frame = message.get("bytes")
            self.machine.receive(message.get("text", "") if frame is None else frame, time.monotonic())
            self._pump()

    async def _close_socket(self) -> None:
        """If the sender ended, say why; if the reader did, the peer is gone already."""
        assert self._sender is not None
        if not self._sender.done():
            return
        error = self._sender.exception()
        code, reason = (1006, "") if error else self._sender.result()
        if isinstance(error, ClientTooSlow):
            self._hub.metrics.dropped.inc()
            code, reason = TOO_SLOW, str(error)
        elif error is not None:
            return  # every failed send means one thing: the peer is gone
        try:
            async with asyncio.timeout(self._hub.config.stall_s):
                await self._socket.close(code, reason[:120])
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            log.debug("session %s was gone before its close", self._session)

    # ---- the engine's side -----------------------------------------------------------------------------

    def handle(self, delivery: Delivery) -> None:
        """One delivery of this session, in stream order."""
        now, machine = time.monotonic(), self.machine
        match delivery:
            case UnitChunk():
                self._hub.metrics.audio_s.inc(delivery.chunk.duration_ms / 1000)
                parts = _ttfa_ms(delivery)
                machine.audio(delivery.utterance, delivery.unit, delivery.chunk, parts, now)
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

    def tick(self, now: float) -> None:
        self.machine.tick(now)
        self._pump()

    def pump(self) -> None:
        """After a batch of `handle` calls."""
        self._pump()

    # ---- machine -> outbox and runtime -----------------------------------------------------------------

    def _pump(self) -> None:
        self._events.extend(self.machine.events())
        self._carry_out()
        try:
            self._outbox.put(self.machine.frames())
        except ClientTooSlow as error:
            self._hub.metrics.dropped.inc()
            self._outbox.close(TOO_SLOW, str(error))
            if self._sender is not None:
                self._sender.cancel()

    def _carry_out(self) -> None:
        """Events in order; while a clip is being encoded the rest waits behind it."""
        while self._events and self._encoding is None:
            event = self._events.popleft()
            try:
                self._do(event)
            except MailboxFull as error:
                self.machine.failed(None, "overloaded", f"the engine is behind: {error}", time.monotonic())

    def _do(self, event: events.SessionEvent) -> None:
        runtime, session = self._hub.runtime, self._session
        match event:
            case events.UseVoice(name=name, reference=reference):
                if reference is not None:
                    self._encoding = asyncio.create_task(self._use_reference(reference))
                elif name is not None:
                    runtime.send(job.Open(session, self._hub.voice(name)))
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
            case events.Shut():
                self._outbox.close(event.code, event.reason)

    def _begin(self, event: events.Begin) -> None:
        runtime, session = self._hub.runtime, self._session
        utterance = job.UtteranceId(event.utterance)
        if event.new_stream:
            rate_hz = runtime.engine.limits.sample_rate_hz
            runtime.open_stream(session, partial(make_encoder, event.output, rate_hz))
        else:
            runtime.skip_to(session, utterance)
        sampling = Sampling(temperature=event.temperature, top_p=event.top_p, seed=event.seed)
        runtime.send(job.Begin(session, utterance, sampling, event.max_lead_s))

    async def _use_reference(self, reference: events.Reference) -> None:
        """Encode the clip, then go on with the events behind it. A bad clip fails the stream."""
        try:
            voice = await self._hub.clone(reference)
            self._hub.runtime.send(job.Open(self._session, voice))
        except (BadReference, MailboxFull) as error:
            self.machine.failed(None, "bad_reference", str(error), time.monotonic())
        finally:
            self._encoding = None
        self._pump()


def _ttfa_ms(delivery: UnitChunk) -> dict[str, float] | None:
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
