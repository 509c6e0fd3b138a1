"""Reference clips are brought to one loudness, whatever they come at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.codec.level import SPEECH_RMS, level_speech, speech_rms

RATE_HZ = 24_000


def talk(pauses: int = 3) -> np.ndarray:
    """Noise in bursts, with pauses that are nearly silent between them."""
    noise = np.random.default_rng(1).normal(0, 0.1, RATE_HZ).astype(np.float32)
    return np.concatenate([part for _ in range(pauses) for part in (noise, noise[: RATE_HZ // 2] * 1e-3)])


@given(st.floats(-45, 5))
def test_the_level_of_a_clip_does_not_matter(gain_db: float) -> None:
    levelled = level_speech(talk() * np.float32(10 ** (gain_db / 20)), RATE_HZ)
    assert levelled.dtype == np.float32
    assert np.allclose(levelled, level_speech(talk(), RATE_HZ), atol=1e-5)


def test_pauses_do_not_make_a_clip_louder() -> None:
    assert speech_rms(level_speech(talk(1), RATE_HZ), RATE_HZ) == pytest.approx(SPEECH_RMS, rel=1e-3)
    assert speech_rms(level_speech(talk(5), RATE_HZ), RATE_HZ) == pytest.approx(SPEECH_RMS, rel=1e-3)


def test_a_click_is_not_driven_past_full_scale() -> None:
    clip = talk() * np.float32(0.01)
    clip[100] = 0.5
    assert np.abs(level_speech(clip, RATE_HZ)).max() <= 1.0


@pytest.mark.parametrize("clip", [np.zeros(RATE_HZ, np.float32), talk() * np.float32(1e-5), np.zeros(3, np.float32)])
def test_near_silence_stays_as_it_is(clip: np.ndarray) -> None:
    assert np.array_equal(level_speech(clip, RATE_HZ), clip)
