"""Limits by key: never more open than allowed, never more opened than time gave, and one key never costs another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.errors import TooManySessions
from realtime.server.limits import KeyLimits


def test_a_key_has_so_many_open_and_no_more_until_one_is_over() -> None:
    limits = KeyLimits(2, 0)
    limits.enter("a", 0.0)
    limits.enter("a", 0.0)
    with pytest.raises(TooManySessions, match="2 sessions open"):
        limits.enter("a", 0.0)
    limits.enter("b", 0.0)
    limits.leave("a")
    limits.enter("a", 0.0)
    assert (limits.open_of("a"), limits.open_of("b"), limits.open_of("c")) == (2, 1, 0)


def test_a_minutes_worth_may_come_at_once_and_then_grows_back() -> None:
    limits = KeyLimits(0, 3)
    for _ in range(3):
        limits.enter("a", 10.0)
    with pytest.raises(TooManySessions, match="3 sessions a minute"):
        limits.enter("a", 29.9)
    limits.enter("a", 30.1)
    with pytest.raises(TooManySessions):
        limits.enter("a", 30.2)


def test_a_refusal_counts_for_nothing() -> None:
    limits = KeyLimits(1, 2)
    limits.enter("a", 0.0)
    for _ in range(10):
        with pytest.raises(TooManySessions):
            limits.enter("a", 0.0)
    limits.leave("a")
    limits.enter("a", 0.0)


@given(st.lists(st.floats(0.0, 30.0), max_size=60), st.integers(1, 5))
def test_in_no_minute_does_a_key_open_more_than_a_burst_and_what_grew_back(gaps: list[float], per_minute: int) -> None:
    limits, now, opened = KeyLimits(0, per_minute), 0.0, []
    for gap in gaps:
        now += gap
        try:
            limits.enter("a", now)
        except TooManySessions:
            continue
        opened.append(now)
    for begin in opened:
        assert sum(begin <= at < begin + 60.0 for at in opened) <= 2 * per_minute
