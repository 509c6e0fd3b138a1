"""The ruler for pauses, on sound whose silences are known."""

from __future__ import annotations

import numpy as np
import pytest

from loadtest.pauses import RATE_HZ, Spoken, measure

SOUND = np.sin(np.arange(RATE_HZ // 2) * 0.3)


def silence(ms: int, level: float = 0.001) -> np.ndarray:
    return np.full(ms * RATE_HZ // 1000, level)


def test_silences_are_measured_where_they_lie() -> None:
    pcm = np.concatenate([silence(30), SOUND, silence(400), SOUND, silence(250)]).astype(np.float32)
    join = (30 + 500 + 300) * RATE_HZ // 1000
    assert measure(Spoken(pcm, [join])) == (30.0, [400.0], 250.0)


@pytest.mark.parametrize("late_ms", [-80, 80])
def test_a_join_in_the_books_may_lie_a_packet_beside_the_silence(late_ms: int) -> None:
    pcm = np.concatenate([SOUND, silence(100), SOUND]).astype(np.float32)
    edge = 500 if late_ms < 0 else 600
    assert measure(Spoken(pcm, [(edge + late_ms) * RATE_HZ // 1000]))[1] == [100.0]


def test_what_is_forty_decibels_down_is_silence_and_what_is_louder_is_not() -> None:
    pcm = np.concatenate([SOUND, silence(200, 0.02), SOUND]).astype(np.float32)
    assert measure(Spoken(pcm, [600 * RATE_HZ // 1000]))[1] == [0.0]
