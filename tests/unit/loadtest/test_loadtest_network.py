"""The network between server and listener, as the load test models it."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from loadtest.network import delayed
from loadtest.player import Arrival

STREAMS = st.lists(st.floats(0, 1), max_size=30).map(
    lambda gaps: [Arrival(sum(gaps[: i + 1]), 0.02 * (i + 1)) for i in range(len(gaps))]
)


@given(STREAMS, st.floats(0.001, 0.2), st.integers())
def test_every_message_comes_later_in_order_with_its_own_sound(stream: list[Arrival], mean_s: float, seed: int) -> None:
    late = delayed(stream, mean_s, random.Random(seed))
    assert [arrival.audio_s for arrival in late] == [arrival.audio_s for arrival in stream]
    assert all(after.at_s >= before.at_s for before, after in zip(stream, late, strict=True))
    assert late == sorted(late, key=lambda arrival: arrival.at_s)


@given(STREAMS)
def test_no_network_changes_nothing(stream: list[Arrival]) -> None:
    assert delayed(stream, 0.0, random.Random(1)) == stream


def test_lone_messages_take_the_mean_on_average() -> None:
    stream = [Arrival(100.0 * i, 0.02) for i in range(4_000)]
    late = delayed(stream, 0.03, random.Random(5))
    mean_s = sum(b.at_s - a.at_s for a, b in zip(stream, late, strict=True)) / len(stream)
    assert abs(mean_s - 0.03) < 0.003
