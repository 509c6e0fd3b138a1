"""Laws of the client's deadlines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kingfisher_client.deadlines import Deadlines, Timeouts

LIMITS = Timeouts(first_audio_s=5.0, audio_gap_s=2.0, total_s=None)


def test_nothing_is_waited_for_while_nothing_is_owed() -> None:
    deadlines = Deadlines(LIMITS, now_s=0.0)
    deadlines.heard(1.0)
    assert deadlines.next() == (None, "")


def test_first_audio_and_the_gaps_after_it_have_limits_of_their_own() -> None:
    deadlines = Deadlines(LIMITS, now_s=0.0)
    deadlines.owe(10.0)
    assert deadlines.next() == (15.0, "no audio for 5 s while it was owed")
    deadlines.heard(12.0)
    assert deadlines.next() == (14.0, "no further audio for 2 s while it was owed")


def test_asking_again_does_not_put_the_deadline_off() -> None:
    deadlines = Deadlines(LIMITS, now_s=0.0)
    deadlines.owe(1.0)
    deadlines.owe(4.0)
    assert deadlines.next()[0] == 6.0


def test_a_second_turn_waits_for_its_own_first_audio() -> None:
    deadlines = Deadlines(LIMITS, now_s=0.0)
    deadlines.owe(1.0)
    deadlines.heard(2.0)
    deadlines.settle()
    deadlines.owe(100.0)
    assert deadlines.next()[0] == 105.0


def test_the_total_runs_from_the_start_and_the_nearest_deadline_counts() -> None:
    deadlines = Deadlines(Timeouts(first_audio_s=5.0, audio_gap_s=2.0, total_s=6.0), now_s=10.0)
    assert deadlines.next() == (16.0, "the stream took over 6 s")
    deadlines.owe(10.5)
    assert deadlines.next()[0] == 15.5
    deadlines.heard(15.0)
    assert deadlines.next()[0] == 16.0


def test_none_switches_a_limit_off() -> None:
    deadlines = Deadlines(Timeouts(first_audio_s=None, audio_gap_s=None), now_s=0.0)
    deadlines.owe(1.0)
    deadlines.heard(2.0)
    assert deadlines.next()[0] is None


@given(steps=st.lists(st.tuples(st.sampled_from(["owe", "heard"]), st.floats(0.01, 10.0)), min_size=1))
def test_an_owing_stream_always_has_a_deadline_within_its_limit(steps: list[tuple[str, float]]) -> None:
    deadlines, now_s = Deadlines(LIMITS, 0.0), 0.0
    deadlines.owe(now_s)
    for call, passed_s in steps:
        now_s += passed_s
        getattr(deadlines, call)(now_s)
        at_s, _ = deadlines.next()
        assert at_s is not None
        assert at_s <= now_s + LIMITS.first_audio_s  # type: ignore[operator]
