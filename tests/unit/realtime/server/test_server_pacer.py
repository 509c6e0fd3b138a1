"""Sound for a client that hardly buffers leaves in its own rhythm, and nothing else is ever kept waiting."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.player import Arrival, play, rfc3550_jitter_s
from realtime.audio.chunk import AudioChunk
from realtime.runtime.delivery import Delivery, UnitChunk
from realtime.scheduler.job import MarkReached, SessionId, UtteranceId
from realtime.server.pacer import LONGEST_PACED_LEAD_S, SENT_SHARE, TIMER_S, Pacer

SESSION, FIRST, SECOND = SessionId(1), UtteranceId(1), UtteranceId(2)
FRAME_S = 2048 / 44_100
LEAD_S = 0.4


class FakeTimer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeClock:
    """An event loop whose time passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self._timers: list[tuple[float, int, FakeTimer, Callable[[], object]]] = []
        self._order = count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> FakeTimer:
        timer = FakeTimer()
        heapq.heappush(self._timers, (when, next(self._order), timer, callback))
        return timer

    def run_until(self, when: float) -> None:
        while self._timers and self._timers[0][0] <= when:
            at, _, timer, callback = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            if not timer.is_cancelled:
                callback()
        self.now = max(self.now, when)


class Listener:
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.taken: list[tuple[float, Delivery]] = []

    def take(self, due: list[Delivery]) -> None:
        self.taken += [(self._clock.now, delivery) for delivery in due]

    @property
    def arrivals(self) -> list[Arrival]:
        return [Arrival(at, one.chunk.duration_ms / 1000) for at, one in self.taken if isinstance(one, UnitChunk)]


def sound(duration_ms: float, utterance: UtteranceId = FIRST) -> UnitChunk:
    return UnitChunk(SESSION, utterance, 0, AudioChunk(duration_ms, b"", ()))


def packets_of_frames(frames: int) -> list[float]:
    """Milliseconds of whole 20 ms packets that each frame completes."""
    done = [int(i * FRAME_S / 0.020) for i in range(frames + 1)]
    return [20.0 * (b - a) for a, b in pairwise(done)]


def paced(lead_s: float = LEAD_S) -> tuple[FakeClock, Pacer, Listener]:
    clock = FakeClock()
    listener = Listener(clock)
    pacer = Pacer(clock, listener.take)
    assert pacer.begin(lead_s) == []
    return clock, pacer, listener


def test_frames_that_come_unevenly_leave_without_jitter() -> None:
    clock, pacer, listener = paced()
    arrivals, sent_s, made_s = [], 0.0, clock.now
    for i, duration_ms in enumerate(packets_of_frames(300)):
        # The engine's rule: a frame when the lead has room, up to 30 ms late.
        made_s = max(made_s + 0.015, 100.0 + sent_s - LEAD_S + FRAME_S) + (i % 4) * 0.010
        clock.run_until(made_s)
        pacer.put([sound(duration_ms)])
        arrivals.append(Arrival(made_s, duration_ms / 1000))
        sent_s += duration_ms / 1000
    clock.run_until(made_s + 1.0)
    assert len(listener.arrivals) == 300
    assert rfc3550_jitter_s(arrivals) > 0.008
    assert rfc3550_jitter_s(listener.arrivals) < TIMER_S


@given(
    gaps_ms=st.lists(st.floats(0, 200), min_size=1, max_size=60),
    durations_ms=st.lists(st.sampled_from([20.0, 40.0, 60.0, 100.0]), min_size=60, max_size=60),
    lead_s=st.floats(0.2, LONGEST_PACED_LEAD_S),
)
def test_holding_back_never_makes_a_player_run_dry(
    gaps_ms: list[float], durations_ms: list[float], lead_s: float
) -> None:
    clock, pacer, listener = paced(lead_s)
    came: list[Arrival] = []
    for gap_ms, duration_ms in zip(gaps_ms, durations_ms, strict=False):
        clock.run_until(clock.now + gap_ms / 1000)
        came.append(Arrival(clock.now, duration_ms / 1000))
        pacer.put([sound(duration_ms)])
    clock.run_until(clock.now + 60.0)
    assert [one.audio_s for one in listener.arrivals] == [one.audio_s for one in came]
    assert play(listener.arrivals).stalled_s == pytest.approx(play(came).stalled_s, abs=1e-6)


def test_no_more_than_its_share_of_the_lead_is_at_the_client() -> None:
    clock, pacer, listener = paced()
    pacer.put([sound(40.0) for _ in range(50)])
    clock.run_until(clock.now + 10.0)
    sent_s = 0.0
    for arrival in listener.arrivals:
        assert 100.0 + sent_s - arrival.at_s <= LEAD_S * SENT_SHARE + TIMER_S
        sent_s += arrival.audio_s


def test_what_follows_sound_comes_behind_it_and_at_once() -> None:
    clock, pacer, listener = paced()
    everything: list[Delivery] = []
    for seq in range(10):
        everything += [sound(100.0), MarkReached(SESSION, FIRST, seq)]
    pacer.put(everything)
    assert len(listener.taken) < len(everything)
    clock.run_until(clock.now + 5.0)
    assert [one for _, one in listener.taken] == everything
    for (heard_s, one), (mark_s, other) in zip(listener.taken[::2], listener.taken[1::2], strict=True):
        assert (type(one), type(other)) == (UnitChunk, MarkReached)
        assert mark_s == heard_s


def test_an_interrupted_utterance_keeps_nobody_waiting() -> None:
    clock, pacer, listener = paced()
    pacer.put([sound(100.0) for _ in range(10)])
    sent = len(listener.taken)
    held = pacer.begin(LEAD_S)
    assert sent + len(held) == 10
    pacer.put([sound(20.0, SECOND)])
    assert listener.taken[-1] == (clock.now, sound(20.0, SECOND))
    clock.run_until(clock.now + 5.0)
    assert len(listener.taken) == sent + 1


def test_a_longer_lead_is_not_paced() -> None:
    clock, pacer, listener = paced(LONGEST_PACED_LEAD_S + 0.1)
    pacer.put([sound(100.0) for _ in range(50)])
    assert [at for at, _ in listener.taken] == [clock.now] * 50


def test_nothing_is_sent_for_a_seat_that_was_left() -> None:
    clock, pacer, listener = paced()
    pacer.put([sound(100.0) for _ in range(10)])
    sent = len(listener.taken)
    pacer.stop()
    clock.run_until(clock.now + 5.0)
    assert len(listener.taken) == sent
