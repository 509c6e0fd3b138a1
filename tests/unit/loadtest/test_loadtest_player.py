"""The player model: what counts as a stall."""

from __future__ import annotations

import pytest

from loadtest.player import Arrival, play


def arrivals(*pairs: tuple[float, float]) -> list[Arrival]:
    return [Arrival(at, audio) for at, audio in pairs]


def test_a_stream_that_is_always_ahead_never_stalls() -> None:
    playback = play(arrivals((1.0, 0.1), (1.05, 0.1), (1.1, 0.1)))
    assert playback.stalls == 0
    assert playback.stalled_s == 0
    assert playback.min_slack_s == pytest.approx(0.0)
    assert playback.audio_s == pytest.approx(0.3)


def test_a_late_packet_pushes_the_clock_on_so_later_ones_are_not_late_again() -> None:
    playback = play(arrivals((0.0, 0.1), (0.3, 0.1), (0.4, 0.1), (0.5, 0.1)))
    assert playback.stalls == 1
    assert playback.stalled_s == pytest.approx(0.2)
    assert playback.max_underrun_s == pytest.approx(0.2)
    assert playback.stall_ratio == pytest.approx(0.5)


def test_a_start_buffer_absorbs_what_it_holds_and_no_more() -> None:
    stream = arrivals((0.0, 0.1), (0.15, 0.1))
    assert play(stream, 0.04).stalled_s == pytest.approx(0.01)
    assert play(stream, 0.05).stalls == 0


def test_no_audio_is_no_stall() -> None:
    assert play([]).stalls == 0
