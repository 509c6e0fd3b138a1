"""A context's place at the engine: its events become commands, its share of the engine's results comes back to it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from engine.api import Sampling, Voice
from realtime import errors
from realtime.protocol import events
from realtime.protocol.context import Context
from realtime.runtime.delivery import Delivery, StreamClosed, UnitChunk
from realtime.runtime.mailbox import MailboxFull
from realtime.scheduler import job
from realtime.scheduler.policy import speech_limit_frames
from realtime.server.pacer import Pacer

if TYPE_CHECKING:
    from realtime.server.hub import Hub

__all__ = ["Guard", "Seat"]

log = logging.getLogger(__name__)

Guard = Callable[[Callable[[], object]], None]
"""How the owner runs what changes a context: it pulls the outcome afterwards, and answers for faults of ours."""


class Seat:
    """Lives on the event loop, from `hub.take_seat` to `leave`."""

    def __init__(self, hub: Hub, session: job.SessionId, context: Context, guarded: Guard) -> None:
        self.session, self.context = session, context
        self._hub, self._guarded = hub, guarded
        self._events: deque[events.SessionEvent] = deque()
        self._voice: Voice | None = None
        self._encoding: asyncio.Task[None] | None = None
        self._pacer = Pacer(asyncio.get_running_loop(), lambda due: guarded(partial(self._take_all, due)))

    def leave(self) -> None:
        """The engine forgets the session; its slot is free."""
        self._hub.leave_seat(self)
        self._pacer.stop()
        if self._encoding is not None:
            self._encoding.cancel()

    # ---- context -> engine ---------------------------------------------------------------------------

    def carry_out(self, event: events.SessionEvent) -> None:
        """Events in order; while a clip is being encoded, those for the engine wait behind it."""
        if isinstance(event, events.Finished):
            self._hub.metrics.observe_stream(event.reason, event.ttfa_ms)
            return
        self._events.append(event)
        self._carry_on()

    def _carry_on(self) -> None:
        while self._encoding is None and self._events:
            try:
                self._do(self._events.popleft())
            except MailboxFull as error:
                self._fail(errors.Overloaded(f"the engine is behind: {error}"))
            except errors.UnknownVoice as fault:
                self._fail(fault)

    def _do(self, event: events.SessionEvent) -> None:
        runtime, session = self._hub.runtime, self.session
        match event:
            case events.UseVoice(name=None, reference=events.Reference() as reference):
                self._encoding = asyncio.create_task(self._use_reference(reference), name=f"clone-{session}")
            case events.UseVoice(name=str() as name):
                self._use_voice(self._hub.voice(name))
            case events.Begin():
                self._begin(event)
            case events.Speak():
                max_frames = speech_limit_frames(event.text, runtime.engine.limits.frame_s)
                utterance = job.UtteranceId(event.utterance)
                now = time.monotonic()
                runtime.send(job.Speak(session, utterance, event.unit, event.text, max_frames, event.pauses, now))
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
        runtime, session = self._hub.runtime, self.session
        utterance = job.UtteranceId(event.utterance)
        self._take_all(self._pacer.begin(event.max_lead_s))
        if event.new_stream:
            runtime.open_stream(session, utterance, event.output)
        else:
            runtime.skip_to(session, utterance)
        sampling = Sampling(temperature=event.temperature, top_p=event.top_p, seed=event.seed)
        runtime.send(job.Begin(session, utterance, sampling, event.max_lead_s, event.output.speed))

    def _use_voice(self, voice: Voice) -> None:
        if voice is not self._voice:
            self._hub.runtime.send(job.Open(self.session, voice))
            self._voice = voice

    async def _use_reference(self, reference: events.Reference) -> None:
        """Encode the clip, then go on with the events behind it. A bad clip fails the stream."""
        failure: Exception | None = None
        try:
            self._use_voice(await self._hub.cloning.voice(reference))
        except Exception as error:
            failure = error
        self._encoding = None
        self._guarded(partial(self._clip_done, failure))

    def _clip_done(self, failure: Exception | None) -> None:
        if isinstance(failure, errors.StreamFault):
            self._fail(failure)
        elif isinstance(failure, MailboxFull):
            self._fail(errors.Overloaded(f"the engine is behind: {failure}"))
        elif failure is not None:
            raise failure
        self._carry_on()

    def _fail(self, fault: errors.StreamFault) -> None:
        self.context.fail(fault, time.monotonic())

    # ---- engine -> context ---------------------------------------------------------------------------

    def deliver(self, deliveries: Sequence[Delivery]) -> None:
        """What the engine's side made for this session, in stream order."""
        self._pacer.put(deliveries)

    def _take_all(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._take(delivery)

    def _take(self, delivery: Delivery) -> None:
        now, context = time.monotonic(), self.context
        match delivery:
            case UnitChunk():
                self._hub.metrics.audio_s.inc(delivery.chunk.duration_ms / 1000)
                context.heard(delivery.utterance, [(h.unit, h.at_s, h.char) for h in delivery.heard])
                context.audio(delivery.utterance, delivery.unit, delivery.chunk, _parts_ms(delivery, now), now)
            case job.Warm():
                context.warmed(delivery.voice.name)
            case job.UnitDone():
                context.unit_done(delivery.utterance, delivery.unit, is_cut=delivery.is_cut)
            case job.MarkReached():
                context.mark_reached(delivery.utterance, delivery.seq)
            case job.UtteranceDone():
                context.utterance_done(delivery.utterance)
            case StreamClosed():
                context.stream_closed(delivery.utterance, delivery.chunk, now)
            case job.Failed():
                fault = errors.EngineFault(delivery.code, delivery.message)
                context.failed(delivery.utterance, fault, now)


def _parts_ms(delivery: UnitChunk, now: float) -> dict[str, float] | None:
    """The time to first audio since the unit was handed over, by phase; only the first chunk of an utterance has it."""
    times = delivery.times
    if times is None:
        return None
    parts = {
        "admission": times.admission_s,
        "queue": times.queue_s,
        "prefill": times.prefill_s,
        "decode": times.decode_s,
        "vocode": times.vocode_s,
        "encode": delivery.encode_s,
        "handover": now - times.made_s - delivery.encode_s,
    }
    return {name: round(seconds * 1000, 2) for name, seconds in parts.items()}
