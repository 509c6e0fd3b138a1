"""The scheduler under any sequence of commands and results, with an engine that only counts.

Laws: used and free slots are all slots; no plan breaks the engine's limits; the frames of a unit come out in order,
each once, as many as the model made, and are that unit's in that session's voice (no cross-talk); a cancelled or closed
utterance never shows again; every utterance ends at most once; and when nothing more comes in, everything that was
asked for is said. Where the wait for a slot is bounded, whoever waited so long is told, and nobody else is (no
starvation).
"""

from __future__ import annotations

import copy
from collections import deque

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.api import Prefill, Sampling, StepPlan
from engine.null import FRAME_SAMPLES, NullEngine
from realtime.scheduler.job import (
    Begin,
    Cancel,
    Close,
    End,
    Failed,
    Mark,
    MarkReached,
    Open,
    SessionId,
    Speak,
    UnitAudio,
    UnitDone,
    UtteranceDone,
    UtteranceId,
)
from realtime.scheduler.scheduler import Scheduler

SLOTS = 2
MAX_FRAMES = 24
FRAMES = (0, 1, 4, 12, 13, 23, 24, 9999)
"""Around what the policy and the limit treat specially; 9999 never stops by itself."""


VOICES = ("low", "high")


def frames_of(request: Prefill) -> int:
    """The text is a serial number, and how many frames the model will make; "9999" never stops."""
    return int((request.text or "0 0").split()[1])


def signed(request: Prefill, frame: int) -> np.ndarray:
    """Audio that names its unit's serial number, its voice and its frame."""
    pcm = np.zeros(FRAME_SAMPLES, np.int16)
    pcm[:3] = int((request.text or "0 0").split()[0]), VOICES.index(request.voice.name), frame
    return pcm


def voice_of(session: SessionId) -> str:
    return VOICES[session % len(VOICES)]


class SchedulerMachine(RuleBasedStateMachine):
    queue_s = 1e9

    def __init__(self) -> None:
        super().__init__()
        self.engine = NullEngine(slots=SLOTS, frames_of=frames_of, pcm_of=signed)
        self.scheduler = Scheduler(self.engine.limits, queue_s=self.queue_s)
        self.now = 0.0
        self.serial = 0
        self.flying: deque = deque()
        self.orders: deque[Prefill] = deque()
        self.asked_s: dict[tuple[SessionId, int], float] = {}
        """When an utterance asked for its first unit, until that is ordered."""
        self.live: dict[SessionId, UtteranceId | None] = {}
        self.next_session = 1
        self.next_utterance: dict[SessionId, int] = {}
        self.asked: dict[tuple[SessionId, int], list] = {}
        self.said: dict[tuple[SessionId, int], list] = {}
        self.ended: set[tuple[SessionId, int]] = set()
        self.done: dict[tuple[SessionId, int], int] = {}
        self.dead: set[tuple[SessionId, int]] = set()

    # ---- commands ----------------------------------------------------------------------------------

    @initialize(sessions=st.integers(1, 4), texts=st.lists(st.sampled_from(FRAMES), max_size=4))
    def some_are_speaking(self, sessions: int, texts: list[int]) -> None:
        """Start in the middle of things, with more sessions than slots as often as not."""
        for _ in range(sessions):
            self.open_session()
            session = SessionId(self.next_session - 1)
            self._begin(session)
            for frames in texts:
                self._speak(session, UtteranceId(1), frames, mark=False)

    @rule()
    def open_session(self) -> None:
        session = SessionId(self.next_session)
        self.next_session += 1
        self.live[session] = None
        self.next_utterance[session] = 1
        self.scheduler.submit(Open(session, self.engine.voices[voice_of(session)]), self.now)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self._begin(data.draw(st.sampled_from(sorted(self.live))))

    def _begin(self, session: SessionId) -> None:
        self._kill(session)
        utterance = UtteranceId(self.next_utterance[session])
        self.next_utterance[session] += 1
        self.live[session] = utterance
        self.asked[session, utterance], self.said[session, utterance] = [], []
        self.scheduler.submit(Begin(session, utterance, Sampling(), 1.0), self.now)

    @precondition(lambda self: any(u is not None for u in self.live.values()))
    @rule(data=st.data(), frames=st.sampled_from(FRAMES), mark=st.booleans())
    def speak(self, data: st.DataObject, frames: int, mark: bool) -> None:
        self._speak(*self._pick(data), frames, mark=mark)

    def _speak(self, session: SessionId, utterance: UtteranceId, frames: int, *, mark: bool) -> None:
        if (session, utterance) in self.ended:
            return
        asked = self.asked[session, utterance]
        unit = sum(kind == "unit" for kind, *_ in asked)
        if unit == 0:
            self.asked_s[session, utterance] = self.now
        self.serial += 1
        asked.append(("unit", self.serial, min(frames, MAX_FRAMES)))
        self.scheduler.submit(Speak(session, utterance, unit, f"{self.serial} {frames}", MAX_FRAMES), self.now)
        if mark:
            asked.append(("mark", len(asked)))
            self.scheduler.submit(Mark(session, utterance, len(asked) - 1), self.now)

    @precondition(lambda self: any(u is not None for u in self.live.values()))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        session, utterance = self._pick(data)
        self.ended.add((session, utterance))
        self.scheduler.submit(End(session, utterance), self.now)

    @precondition(lambda self: any(u is not None for u in self.live.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        session, utterance = self._pick(data)
        self.scheduler.submit(Cancel(session, utterance), self.now)
        self._kill(session)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(sorted(self.live)))
        self.scheduler.submit(Close(session), self.now)
        self._kill(session)
        del self.live[session]

    def _pick(self, data: st.DataObject) -> tuple[SessionId, UtteranceId]:
        pairs = sorted((s, u) for s, u in self.live.items() if u is not None)
        return data.draw(st.sampled_from(pairs))

    def _kill(self, session: SessionId) -> None:
        if self.live[session] is not None:
            self.dead.add((session, self.live[session]))
            self.asked_s.pop((session, self.live[session]), None)
        self.live[session] = None

    # ---- the engine's side -------------------------------------------------------------------------

    @rule()
    def order_prefill(self) -> None:
        if order := self.scheduler.next_prefill(self.now):
            assert not self.orders, "the prefill thread gets one order at a time"
            for ticket in self.flying:
                named = {ref.slot for ref in ticket.plan.decode} | {item.slot for item in ticket.plan.vocode}
                assert order.slot not in named, "the device may still be writing to this slot"
            self.orders.append(order)
            serial = int((order.text or "0").split()[0])
            self.asked_s = {
                key: at
                for key, at in self.asked_s.items()
                if all(item[:2] != ("unit", serial) for item in self.asked[key])
            }

    @rule(steps=st.integers(1, 12))
    def run(self, steps: int) -> None:
        """As the decode loop does it: step n+1 is submitted before step n is collected."""
        for _ in range(steps):
            self.order_prefill()
            if self.orders:
                self.finish_prefill()
            plan = self.scheduler.plan(self.now)
            if plan is not None:
                self._check_plan(plan)
                self.flying.append(self.engine.submit(plan))
            if self.flying and (plan is None or len(self.flying) >= 2):
                self.collect_step()
            self.outputs_are_lawful()

    @precondition(lambda self: self.orders)
    @rule()
    def finish_prefill(self) -> None:
        self.scheduler.prefilled(self.engine.prefill(self.orders.popleft()), self.now)

    @precondition(lambda self: len(self.flying) < 2)
    @rule()
    def submit_step(self) -> None:
        plan = self.scheduler.plan(self.now)
        if plan is not None:
            self._check_plan(plan)
            self.flying.append(self.engine.submit(plan))

    @precondition(lambda self: self.flying)
    @rule()
    def collect_step(self) -> None:
        self.scheduler.apply(self.engine.collect(self.flying.popleft()), self.now)

    @rule(seconds=st.sampled_from([0.01, 0.2, 3.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    def _check_plan(self, plan: StepPlan) -> None:
        limits = self.engine.limits
        assert len({ref.slot for ref in plan.decode}) == len(plan.decode) <= limits.slots
        assert all(1 <= item.frames <= limits.max_vocode_frames for item in plan.vocode)

    # ---- what must hold ----------------------------------------------------------------------------

    @invariant()
    def outputs_are_lawful(self) -> None:
        for output in self.scheduler.take_outputs():
            if isinstance(output, Failed):
                self._note_failure(output)
            if isinstance(output, UnitAudio | UnitDone | MarkReached | UtteranceDone):
                key = (output.session, output.utterance)
                assert key not in self.dead, "something of a cancelled utterance came out"
                assert self.done.get(key, 0) == 0, "something came after the end"
                self._note(key, output)

    def _note_failure(self, output: Failed) -> None:
        raise AssertionError(f"nobody may fail: {output}")

    def _note(self, key: tuple[SessionId, int], output: object) -> None:
        said = self.said[key]
        match output:
            case UnitAudio():
                for pcm in output.pcm.reshape(-1, FRAME_SAMPLES):
                    serial, voice, frame = pcm[:3].tolist()
                    assert VOICES[voice] == voice_of(output.session), "the sound has another session's voice"
                    said.append(("frame", output.unit, serial, frame))
            case UnitDone():
                said.append(("unit", output.unit))
            case MarkReached():
                said.append(("mark", output.seq))
            case UtteranceDone():
                self.done[key] = 1

    @invariant()
    def nobody_needs_a_step_before_the_time_that_was_told(self) -> None:
        wake_s = self.scheduler.next_wake()
        if wake_s is None or wake_s > self.now:
            assert copy.deepcopy(self.scheduler).plan(self.now) is None

    @invariant()
    def slots_are_whole(self) -> None:
        self.scheduler.check_integrity()

    def teardown(self) -> None:
        """Nothing more comes in: everything asked for and not cancelled is said, in order, exactly; with nothing under
        way `next_wake` tells when to go on."""
        for _ in range(20_000):
            self.run(1)
            self.order_prefill()  # the end of one prefill may be the time for the next
            if self.flying or self.orders:
                continue
            if (wake_s := self.scheduler.next_wake()) is None:
                break
            self.now = max(self.now, wake_s)
        else:
            raise AssertionError("the scheduler never came to rest")
        assert self.scheduler.sessions_speaking == 0
        for key, asked in self.asked.items():
            if key in self.dead:
                continue
            expected: list = []
            for item in asked:
                if item[0] == "unit":
                    unit = sum(e[0] == "unit" for e in expected)
                    expected += [("frame", unit, item[1], frame) for frame in range(item[2])] + [("unit", unit)]
                else:
                    expected.append(item)
            assert self.said[key] == expected
            assert self.done.get(key, 0) == (1 if key in self.ended else 0)


class QueueMachine(SchedulerMachine):
    """With a bounded wait for a slot, others' speech cannot keep anybody waiting in silence."""

    queue_s = 2.0

    @rule()
    def order_prefill(self) -> None:
        looks = not self.orders  # it is asked while the prefill thread is free, and not else
        super().order_prefill()
        self.outputs_are_lawful()
        overdue = {session for (session, _), at in self.asked_s.items() if self.now >= at + self.queue_s}
        without_slot = {s.id for s in self.scheduler._sessions.values() if s.slot is None}
        assert not (looks and overdue & without_slot), "somebody waits for a slot and was not told that there is none"

    def _note_failure(self, output: Failed) -> None:
        assert output.code == "overloaded"
        assert output.utterance is not None
        key = (output.session, output.utterance)
        assert self.live[output.session] == output.utterance, "an utterance fails that is over"
        assert self.now >= self.asked_s[key] + self.queue_s, "it failed before its time"
        assert self.said[key] == [], "it failed although it had a slot"
        self._kill(output.session)


@pytest.mark.parametrize("sessions", [2, 3, 4])
def test_sessions_side_by_side_are_each_said_in_their_own_voice(sessions: int) -> None:
    """The one talk that every change of the scheduler must get right, whatever the machine draws."""
    machine = SchedulerMachine()
    machine.some_are_speaking(sessions=sessions, texts=[4, 0, 13])
    machine.teardown()
    assert all(machine.said[SessionId(session), 1] for session in range(1, sessions + 1))


MACHINE_SETTINGS = settings(max_examples=120, stateful_step_count=50, deadline=None)
TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = MACHINE_SETTINGS
TestSchedulerWithABoundedWait = QueueMachine.TestCase
TestSchedulerWithABoundedWait.settings = MACHINE_SETTINGS
