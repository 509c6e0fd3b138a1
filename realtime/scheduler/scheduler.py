"""Which slots run, decided from commands and results alone: no clock, no thread, no tensor, no socket.

The decode thread is the only caller. `submit` takes commands, `next_prefill` says what the prefill thread should do,
`plan` the next engine step, `apply` takes a step's results; outputs are pulled with `take_outputs`. The same calls
with the same times give the same plans.
"""

from __future__ import annotations

import math
from dataclasses import replace

from engine.api import (
    Audio,
    Decoded,
    Epoch,
    Limits,
    Prefill,
    PrefillResult,
    SlotId,
    StepPlan,
    StepResult,
)
from realtime.audio.pauses import QUIET_DBFS, PauseLimiter
from realtime.scheduler.job import (
    Begin,
    Cancel,
    Close,
    Command,
    End,
    Failed,
    Mark,
    MarkReached,
    Open,
    Output,
    SessionId,
    Speak,
    SpeechTimes,
    UnitAudio,
    UnitDone,
    UtteranceDone,
    Warm,
)
from realtime.scheduler.slots import SlotTable
from realtime.scheduler.speech import Generation, Session, Speech
from realtime.scheduler.stepping import choose_step

__all__ = ["Scheduler"]

_UNKNOWN = -math.inf


class Scheduler:
    def __init__(self, limits: Limits, *, queue_s: float = 10.0, quiet_dbfs: float = QUIET_DBFS) -> None:
        """`queue_s` bounds how long a session with something to say waits for a slot; sound whose peaks stay under
        `quiet_dbfs` is silence."""
        self._limits, self._queue_s, self._quiet_dbfs = limits, queue_s, quiet_dbfs
        self._slots = SlotTable(limits.slots)
        self._sessions: dict[SessionId, Session] = {}
        self._by_epoch: dict[tuple[SlotId, Epoch], Session] = {}
        self._outputs: list[Output] = []
        self._step = 0
        self._collected = 0
        self._prefilling: Prefill | None = None
        self._queue_ends_s = math.inf
        """When the first of those without a slot has waited long enough: found by `next_prefill`."""
        self._due_s = _UNKNOWN
        """When somebody needs a step: found by `plan`, void with whatever may bring that forward. More text does not:
        a unit is prefilled first."""

    # ---- commands ------------------------------------------------------------------------------------

    def submit(self, command: Command, now: float) -> None:
        """Commands for sessions or utterances that are over are ignored: they crossed with the end."""
        if isinstance(command, Open):
            self._open(command, now)
            return
        session = self._sessions.get(command.session)
        if session is None:
            return
        if isinstance(command, Close):
            self._close(session)
        elif isinstance(command, Begin):
            self._drop_speech(session, now)
            pauses = PauseLimiter(self._limits.sample_rate_hz, self._limits.frame_samples, self._quiet_dbfs)
            session.speech = Speech(command.utterance, command.sampling, command.max_lead_s, pauses, command.speed)
        elif session.speech is not None and session.speech.utterance == command.utterance:
            self._extend(session, session.speech, command, now)

    def _open(self, command: Open, now: float) -> None:
        session = self._sessions.get(command.session)
        if session is None:
            session = Session(command.session, command.voice, idle_since_s=now)
            self._sessions[command.session] = session
        else:
            self._drop_speech(session, now)
            self._void_epochs(session)
            session.voice, session.is_warm, session.warm_asked = command.voice, False, False
        if session.slot is None:
            session.slot = self._acquire(session)

    def _close(self, session: Session) -> None:
        del self._sessions[session.id]
        self._due_s = _UNKNOWN
        if session.slot is not None:
            self._give_up_slot(session)

    def _extend(self, session: Session, speech: Speech, command: Speak | Mark | End | Cancel, now: float) -> None:
        match command:
            case Cancel():
                self._drop_speech(session, now)
                return
            case End():
                speech.is_ended = True
            case Speak():
                if speech.asked_s is None:
                    speech.asked_s = now if command.sent_s is None else command.sent_s
                if not speech.has_work:
                    speech.waiting_since_s = now
                speech.queue.append(command)
                if session.slot is None and session.queued_since_s is None:
                    session.queued_since_s = now
            case Mark():
                speech.queue.append(command)
        self._advance(session, speech, now)

    def _drop_speech(self, session: Session, now: float) -> None:
        """Void what is under way; the slot stays with the session."""
        if session.speech is not None:
            self._due_s = _UNKNOWN
        if session.speech is not None and session.speech.generation is not None and session.slot is not None:
            self._by_epoch.pop((session.slot, session.speech.generation.epoch), None)
            self._slots.next_epoch(session.slot)
        session.speech, session.queued_since_s, session.idle_since_s = None, None, now

    def _give_up_slot(self, session: Session) -> None:
        assert session.slot is not None
        self._void_epochs(session)
        self._slots.release(session.slot)
        session.slot, session.is_warm, session.warm_asked = None, False, False
        if session.speech is not None:
            session.speech.is_on_slot = session.speech.codec_runs = False

    def _void_epochs(self, session: Session) -> None:
        self._by_epoch = {key: s for key, s in self._by_epoch.items() if s is not session}

    def _fail(self, session: Session, code: str, message: str, now: float) -> None:
        utterance = session.speech.utterance if session.speech is not None else None
        self._drop_speech(session, now)
        self._outputs.append(Failed(session.id, utterance, code, message))

    # ---- slots ---------------------------------------------------------------------------------------

    def _assign_slots(self, now: float) -> None:
        """First come, first served; idle sessions lend their slots, those idle longest first."""
        waiting = [s for s in self._sessions.values() if s.queued_since_s is not None]
        waiting.sort(key=lambda s: s.queued_since_s or 0.0)
        for session in waiting:
            session.slot = self._acquire(session)
            if session.slot is not None:
                session.queued_since_s = None
            elif now >= (session.queued_since_s or 0.0) + self._queue_s:  # as `next_wake` reckons
                self._fail(session, "overloaded", f"no slot became free within {self._queue_s:g} s", now)
        queued = (s.queued_since_s for s in waiting if s.queued_since_s is not None)
        self._queue_ends_s = min(queued, default=math.inf) + self._queue_s

    def _acquire(self, session: Session) -> SlotId | None:
        """A free slot, else one of an idle session, else None."""
        if self._slots.free:
            return self._slots.allocate(session.id)
        idle = [s for s in self._sessions.values() if s.slot is not None and s.is_idle]
        if not idle:
            return None
        self._give_up_slot(min(idle, key=lambda s: s.idle_since_s))
        return self._slots.allocate(session.id)

    # ---- prefill ---------------------------------------------------------------------------------------

    def next_prefill(self, now: float) -> Prefill | None:
        """The next order for the prefill thread, or None while it is busy or there is nothing to do.

        Units come before warm-ups, those that wait longest first. A slot that a submitted step still names is not
        touched: the device may be writing there.
        """
        if self._prefilling is not None:
            return None
        self._assign_slots(now)
        sessions = self._sessions.values()
        units = [s for s in sessions if s.speech is not None and s.speech.has_unit_waiting and self._is_quiet(s)]
        if units:
            session = min(units, key=lambda s: s.speech.waiting_since_s if s.speech else 0.0)
            self._prefilling = self._order_unit(session, now)
        elif cold := [s for s in sessions if not s.is_warm and not s.warm_asked and s.is_idle and self._is_quiet(s)]:
            session = min(cold, key=lambda s: s.idle_since_s)
            assert session.slot is not None
            session.warm_asked = True
            epoch = self._slots.next_epoch(session.slot)
            self._by_epoch[session.slot, epoch] = session
            self._prefilling = Prefill(session.slot, epoch, session.voice)
        return self._prefilling

    def _is_quiet(self, session: Session) -> bool:
        """Whether it has a slot that no step under way names."""
        return session.slot is not None and self._slots.is_quiet(session.slot, self._collected)

    def _order_unit(self, session: Session, now: float) -> Prefill:
        speech, slot = session.speech, session.slot
        assert speech is not None
        assert slot is not None
        unit = speech.queue.popleft()
        assert isinstance(unit, Speak)
        if speech.ordered_s is None:
            speech.ordered_s = now
        epoch = self._slots.next_epoch(slot)
        self._by_epoch[slot, epoch] = session
        speech.generation = Generation(unit.unit, epoch, unit.max_frames)
        # Each unit draws its own noise, or equal frames would be drawn alike in every one.
        sampling = replace(speech.sampling, seed=(speech.sampling.seed + speech.units_begun) % (1 << 63))
        order = Prefill(slot, epoch, session.voice, unit.text, speech.is_on_slot, sampling, unit.max_frames)
        speech.pauses.begin_unit(unit.pauses)
        speech.is_on_slot = True
        speech.units_begun += 1
        return order

    def prefilled(self, result: PrefillResult, now: float) -> None:
        """The prefill thread finished its order."""
        self._prefilling, self._due_s = None, _UNKNOWN
        session = self._by_epoch.get((result.slot, result.epoch))
        if session is None:
            return
        if not session.is_warm:
            session.is_warm = True
            self._outputs.append(Warm(session.id, session.voice))
        speech = session.speech
        if speech is None or speech.generation is None or speech.generation.epoch != result.epoch:
            del self._by_epoch[result.slot, result.epoch]  # a warm-up: nothing decodes under this epoch
            return
        speech.generation.is_armed = True
        if speech.first_prefill is None:
            speech.first_prefill = result

    def prefill_failed(self, order: Prefill, code: str, message: str, now: float) -> None:
        """The order could not be carried out; its utterance fails, a warm-up is given up."""
        self._prefilling, self._due_s = None, _UNKNOWN
        session = self._by_epoch.pop((order.slot, order.epoch), None)
        if session is not None:
            self._fail(session, code, message, now)

    # ---- steps -----------------------------------------------------------------------------------------

    def plan(self, now: float) -> StepPlan | None:
        """The next step, or None when nobody needs one now (see `next_wake`)."""
        step = choose_step(self._sessions.values(), self._limits, now)
        self._due_s = step.due_s
        if not step.decode and not step.vocode:
            return None
        self._step += 1
        for slot in {ref.slot for ref in step.decode} | {item.slot for item in step.vocode}:
            self._slots.planned(slot, self._step)
        return StepPlan(self._step, step.decode, step.vocode)

    def apply(self, result: StepResult, now: float) -> None:
        """Take a step's results; those of earlier epochs are dropped."""
        self._collected, self._due_s = result.step, _UNKNOWN
        for decoded in result.decoded:
            self._apply_decoded(decoded)
        for audio in result.audio:
            self._apply_audio(audio, result, now)
        for fault in result.faults:
            session = self._by_epoch.get((fault.slot, fault.epoch))
            if session is not None:
                self._fail(session, "internal", fault.message, now)
        for session in self._sessions.values():
            if session.speech is not None and session.speech.generation is not None:
                self._advance(session, session.speech, now)

    def _generation(self, slot: SlotId, epoch: Epoch) -> tuple[Session, Speech, Generation] | None:
        session = self._by_epoch.get((slot, epoch))
        if session is None or session.speech is None or session.speech.generation is None:
            return None
        return session, session.speech, session.speech.generation

    def _apply_decoded(self, decoded: Decoded) -> None:
        found = self._generation(decoded.slot, decoded.epoch)
        if found is None or found[2].end is not None:
            return
        g = found[2]
        g.needs = None
        if decoded.ended:
            g.end = decoded.frame
        else:
            g.known = decoded.frame + 1
            g.chars[decoded.frame] = decoded.char
            if g.known == g.max_frames:
                g.end, g.is_cut = g.known, True

    def _apply_audio(self, audio: Audio, result: StepResult, now: float) -> None:
        found = self._generation(audio.slot, audio.epoch)
        if found is None:
            return
        session, speech, g = found
        frames = audio.frames if g.end is None else min(audio.frames, g.end - audio.first_frame)
        if frames <= 0:
            return
        g.deliver(frames)
        samples = self._limits.frame_samples
        pcm = speech.pauses.push(audio.pcm[: frames * samples])
        if not len(pcm):
            return
        heard = g.tell(lambda frame: speech.pauses.place_s(frame * samples))
        times = None if speech.has_sound else self._times(speech, result, now)
        speech.heard(now, len(pcm) / self._limits.sample_rate_hz)
        self._outputs.append(UnitAudio(session.id, speech.utterance, g.unit, pcm, times, heard))

    def _times(self, speech: Speech, result: StepResult, now: float) -> SpeechTimes:
        prefill_s = speech.first_prefill.seconds if speech.first_prefill else 0.0
        ordered_s = now if speech.ordered_s is None else speech.ordered_s
        asked_s = ordered_s if speech.asked_s is None else speech.asked_s
        return SpeechTimes(
            admission_s=max(0.0, ordered_s - asked_s),
            queue_s=max(0.0, now - ordered_s - prefill_s - result.decode_s - result.vocode_s),
            prefill_s=prefill_s,
            decode_s=result.decode_s,
            vocode_s=result.vocode_s,
            made_s=now,
        )

    def _advance(self, session: Session, speech: Speech, now: float) -> None:
        """Report what is complete: the unit under way, the marks behind it, the utterance."""
        g = speech.generation
        if g is not None:
            if not g.is_complete:
                return
            assert session.slot is not None
            del self._by_epoch[session.slot, g.epoch]
            speech.generation = None
            speech.waiting_since_s = now
            drained = not speech.is_ended and not any(isinstance(item, Speak) for item in speech.queue)
            self._outputs.append(UnitDone(session.id, speech.utterance, g.unit, g.is_cut, drained))
        while speech.queue and isinstance(speech.queue[0], Mark):
            mark = speech.queue.popleft()
            assert isinstance(mark, Mark)
            self._outputs.append(MarkReached(session.id, speech.utterance, mark.seq))
        if not speech.queue:
            session.idle_since_s = now
            if speech.is_ended:
                session.speech = None
                self._outputs.append(UtteranceDone(session.id, speech.utterance))

    # ---- outputs and state -------------------------------------------------------------------------------

    def take_outputs(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_wake(self) -> float | None:
        """When there may be something to do although nothing has come in, at the latest a moment ago if something has
        that may call for a step; None: only a command or a result can bring it."""
        # Slots are given out between prefills; the end of one is something that comes in.
        wake_s = self._due_s if self._prefilling is not None else min(self._due_s, self._queue_ends_s)
        return None if wake_s == math.inf else wake_s

    def fail_all(self, message: str) -> None:
        """The engine is gone: every session is told."""
        for session in self._sessions.values():
            utterance = session.speech.utterance if session.speech is not None else None
            self._outputs.append(Failed(session.id, utterance, "internal", message))
        self._sessions.clear()

    @property
    def slots_used(self) -> int:
        return self._slots.used

    @property
    def sessions_speaking(self) -> int:
        return sum(not session.is_idle for session in self._sessions.values())

    def check_integrity(self) -> None:
        self._slots.check_integrity()
        held = {s.slot for s in self._sessions.values() if s.slot is not None}
        assert len(held) == self._slots.used, "slots in use differ from slots held by sessions"
