"""Speed keeps the pitch, volume keeps the bounds, and neither depends on how the sound was cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime.audio.encoder import make_encoder
from realtime.audio.shaped import louder
from realtime.audio.stretch import TimeStretch
from realtime.protocol.events import OutputSpec
from tests.audio_streams import RATE_HZ, heard, noise, pitch_hz, run, tone

SPEEDS = [0.25, 0.5, 0.8, 1.25, 2.0, 4.0]


@pytest.mark.parametrize("speed", SPEEDS)
def test_speed_changes_the_time_and_not_the_pitch(speed: float) -> None:
    sound = heard("pcm", run(make_encoder(OutputSpec("pcm", RATE_HZ, speed=speed), RATE_HZ), tone(4 * RATE_HZ)))
    assert sound.seconds == pytest.approx(4 / speed, abs=0.03)
    assert abs(pitch_hz(sound) - 440) <= 1.5


@settings(max_examples=30)
@given(st.sampled_from(SPEEDS), st.lists(st.integers(0, 20_000), max_size=6))
def test_how_it_was_cut_never_matters(speed: float, cuts: list[int]) -> None:
    pcm = noise(12_345)
    edges = [0, *sorted(cut % len(pcm) for cut in cuts), len(pcm)]
    whole, parts = TimeStretch(speed, RATE_HZ), TimeStretch(speed, RATE_HZ)
    at_once = np.concatenate([whole.push(pcm), whole.drain()])
    pieces = [parts.push(pcm[a:b]) for a, b in itertools.pairwise(edges)]
    assert np.array_equal(at_once, np.concatenate([*pieces, parts.drain()]))
    assert len(at_once) == round(len(pcm) / speed)


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_run_after_a_drain_is_like_the_first(speed: float) -> None:
    stretch = TimeStretch(speed, RATE_HZ)
    first, second = (np.concatenate([stretch.push(tone(5_000)), stretch.drain()]) for _ in range(2))
    assert np.array_equal(first, second)


def test_nothing_pushed_gives_nothing() -> None:
    assert len(TimeStretch(1.5, RATE_HZ).drain()) == 0


@given(st.floats(-20, 20))
def test_volume_never_wraps_around_and_keeps_the_order_of_samples(gain_db: float) -> None:
    ramp = np.arange(-32_768, 32_768, 64).astype(np.int16)
    out = louder(ramp, gain_db)
    assert (np.diff(out.astype(int)) >= 0).all()


def test_volume_is_in_decibels() -> None:
    assert louder(np.array([1000, -1000], np.int16), 6.0206).tolist() == [2000, -2000]
    assert louder(np.array([1000], np.int16), -20.0).tolist() == [100]
