"""Who takes part in a step, and when there is one: the scheduler with a device that takes a fixed time for each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import Prefill, PrefillResult, Sampling, StepPlan
from engine.null import NullEngine
from realtime.scheduler.job import Begin, Cancel, Close, End, Mark, Open, SessionId, Speak, UnitAudio, UtteranceId
from realtime.scheduler.policy import CROWD, PACED_LEAD_S, comfort_s, patience_s
from realtime.scheduler.scheduler import Scheduler

STEP_S = 0.004
FRAME_S = NullEngine().limits.frame_s
ENDLESS = 9_999


@dataclass
class Device:
    """Runs steps and prefills one after the other on a clock of its own; the host costs no time."""

    slots: int
    prefill_s: float = 0.0
    now: float = 0.0
    plans: list[StepPlan] = field(default_factory=list)
    first_s: dict[int, float] = field(default_factory=dict)
    """When each session's first sound came."""
    played_until_s: dict[int, float] = field(default_factory=dict)
    quiet_s: dict[int, float] = field(default_factory=dict)
    """The longest time between two messages with sound."""
    dry: set[int] = field(default_factory=set)
    """Sessions whose listener ran out of sound."""

    def __post_init__(self) -> None:
        self.engine = NullEngine(slots=self.slots, frames_of=lambda request: ENDLESS)
        self.scheduler = Scheduler(self.engine.limits)
        self._order: Prefill | None = None
        self._prefilled_s = math.inf
        self._heard_s: dict[int, float] = {}

    def speak(self, session: int, max_lead_s: float = 3.0) -> None:
        voice = self.engine.voices["low"]
        key = SessionId(session), UtteranceId(1)
        for command in (
            Open(key[0], voice),
            Begin(*key, Sampling(), max_lead_s),
            Speak(*key, 0, "endless", ENDLESS),
        ):
            self.scheduler.submit(command, self.now)

    def run_until(self, end_s: float) -> None:
        while self.now < end_s:
            self._prefill()
            plan = self.scheduler.plan(self.now)
            if plan is None:
                wake_s = self.scheduler.next_wake()
                assert wake_s is None or wake_s > self.now, "a step was due and was not made"
                self.now = min(end_s, self._prefilled_s, math.inf if wake_s is None else wake_s)
                continue
            self.plans.append(plan)
            result = self.engine.collect(self.engine.submit(plan))
            self.now += STEP_S
            self.scheduler.apply(result, self.now)
            for output in self.scheduler.take_outputs():
                if isinstance(output, UnitAudio):
                    self._hear(output.session, len(output.pcm) / self.engine.limits.sample_rate_hz)

    def lead_s(self, session: int) -> float:
        return self.played_until_s[session] - self.now

    def _prefill(self) -> None:
        while True:
            if self._order is None:
                self._order = self.scheduler.next_prefill(self.now)
                self._prefilled_s = math.inf if self._order is None else self.now + self.prefill_s
            if self._order is None or self._prefilled_s > self.now:
                return
            order, self._order, self._prefilled_s = self._order, None, math.inf
            self.engine.prefill(order)
            self.scheduler.prefilled(PrefillResult(order.slot, order.epoch, 9, 0, self.prefill_s), self.now)

    def _hear(self, session: SessionId, seconds: float) -> None:
        self.first_s.setdefault(session, self.now)
        self.quiet_s[session] = max(self.quiet_s.get(session, 0.0), self.now - self._heard_s.get(session, self.now))
        self._heard_s[session] = self.now
        until_s = self.played_until_s.get(session, self.now)
        if until_s < self.now:
            self.dry.add(session)
        self.played_until_s[session] = max(until_s, self.now) + seconds


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0.2, 60))
def test_patience_grows_with_the_lead_and_is_at_most_a_frame(lead_s: float, more_s: float, max_lead_s: float) -> None:
    patience = patience_s(lead_s, max_lead_s, FRAME_S)
    assert 0 <= patience <= patience_s(lead_s + more_s, max_lead_s, FRAME_S) <= FRAME_S
    assert patience_s(0.0, max_lead_s, FRAME_S) == 0.0


@given(st.floats(0.2, 60))
def test_comfort_lies_inside_the_lead_or_is_never_reached(max_lead_s: float) -> None:
    assert 0 < comfort_s(max_lead_s) < max_lead_s or comfort_s(max_lead_s) == math.inf


@pytest.mark.parametrize("max_lead_s", [0.2, 1.0, 3.0])
def test_listeners_who_have_sound_share_steps_and_none_runs_dry(max_lead_s: float) -> None:
    device = Device(slots=16)
    for session in range(16):
        device.speak(session, max_lead_s)
        device.run_until(0.137 * session)
    device.run_until(6.0)
    device.plans.clear()
    device.run_until(8.0)
    rows = sum(len(plan.decode) for plan in device.plans)
    assert rows == pytest.approx(16 * 2.0 / FRAME_S, rel=0.1)  # real time for everyone …
    assert rows / len(device.plans) >= 8  # … in a few steps
    assert device.dry == set()
    assert all(0.5 * max_lead_s < device.lead_s(session) <= max_lead_s + FRAME_S for session in range(16))


@pytest.mark.parametrize("max_lead_s", [0.2, 3.0, 120.0])
def test_no_socket_is_silent_for_a_second_while_its_speech_goes_on(max_lead_s: float) -> None:
    """Clients take a silence for the end of a turn, or for a dead connection; full leads must not make one."""
    device = Device(slots=2)
    device.speak(0, max_lead_s)
    device.run_until(12.0)
    for newcomer in range(1, 12):  # whose first steps are for all, and fill the other's lead to the brim
        device.speak(newcomer)
        device.run_until(12.0 + newcomer)
        device.scheduler.submit(Close(SessionId(newcomer)), device.now)
    device.run_until(40.0)
    assert device.lead_s(0) > 0.75 * max_lead_s
    assert max(device.quiet_s.values()) < 1.0


def test_who_wants_the_whole_text_at_once_is_not_made_to_wait() -> None:
    device = Device(slots=1)
    device.speak(0, max_lead_s=2 * PACED_LEAD_S)
    device.run_until(0.5)
    assert len(device.plans) == 0.5 / STEP_S


def test_a_first_sound_has_the_device_to_itself_while_others_have_enough() -> None:
    device = Device(slots=9, prefill_s=0.02)
    for session in range(8):
        device.speak(session)
    device.run_until(4.0)
    device.plans.clear()
    asked_s = device.now
    device.speak(8)
    device.run_until(asked_s + 0.1)
    assert [len(plan.decode) for plan in device.plans[:1]] == [1]
    assert device.first_s[8] - asked_s == pytest.approx(device.prefill_s + STEP_S)
    assert device.dry == set()


@pytest.mark.parametrize(("callers", "frames"), [(CROWD, 1), (CROWD + 8, 2)])
def test_many_who_begin_together_get_their_first_frame_alone_and_then_two_a_message(callers: int, frames: int) -> None:
    device = Device(slots=callers)
    for session in range(callers):
        device.speak(session)
    device.run_until(20 * STEP_S)
    calls = [[item for plan in device.plans for item in plan.vocode if item.slot == slot] for slot in range(callers)]
    assert [call[0].frames for call in calls] == [1] * callers
    assert {call[1].frames for call in calls} == {frames}
    assert not device.dry


def test_nobody_runs_dry_for_a_newcomer_whose_prefill_takes_long() -> None:
    device = Device(slots=9)
    for session in range(8):
        device.speak(session)
    device.run_until(4.0)
    device.prefill_s = 10.0
    device.speak(8)
    device.run_until(8.0)
    assert 8 not in device.first_s
    assert device.dry == set()
    assert all(device.lead_s(session) >= 0.3 for session in range(8))


NEWCOMER = SessionId(8), UtteranceId(1)


def eight_stepped_aside() -> Device:
    """Their leads have room, and the ninth waits for a prefill that takes its time."""
    device = Device(slots=9)
    for session in range(8):
        device.speak(session)
    device.run_until(4.0)
    device.prefill_s = 10.0
    device.speak(NEWCOMER[0])
    device.run_until(5.0)
    return device


@pytest.mark.parametrize(
    "leave",
    [Cancel(*NEWCOMER), Close(NEWCOMER[0]), Begin(NEWCOMER[0], UtteranceId(2), Sampling(), 3.0)],
    ids=lambda command: type(command).__name__,
)
def test_who_stepped_aside_is_due_when_the_one_who_waited_goes(leave: Cancel | Close | Begin) -> None:
    device = eight_stepped_aside()
    assert device.scheduler.next_wake() > device.now
    device.scheduler.submit(leave, device.now)
    assert device.scheduler.next_wake() <= device.now
    assert len(device.scheduler.plan(device.now).decode) == 8


@pytest.mark.parametrize(
    "more",
    [Speak(*NEWCOMER, 1, "and more", ENDLESS), Mark(*NEWCOMER, 1), End(*NEWCOMER)],
    ids=lambda command: type(command).__name__,
)
def test_more_text_brings_no_step_forward(more: Speak | Mark | End) -> None:
    """Each look at who takes part costs time in which no other thread computes: a turn's four commands are not worth
    one, as a unit decodes after its prefill."""
    device = eight_stepped_aside()
    wake_s = device.scheduler.next_wake()
    device.scheduler.submit(more, device.now)
    assert device.scheduler.next_wake() == wake_s > device.now
