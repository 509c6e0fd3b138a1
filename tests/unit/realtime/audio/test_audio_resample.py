"""The resampler: phase carried, levels kept, runs independent."""

from __future__ import annotations

import numpy as np
import pytest

from realtime.audio.resample import Resampler
from realtime.protocol.fish.request import PCM_RATES_HZ
from tests.audio_streams import tone


@pytest.mark.parametrize("rate_hz", PCM_RATES_HZ)
def test_a_drained_resampler_goes_on_like_a_fresh_one(rate_hz: int) -> None:
    resampler = Resampler(24_000, rate_hz)
    runs = [np.concatenate([resampler.push(tone(5_000)), resampler.drain()]) for _ in range(2)]
    assert np.array_equal(*runs)


def test_equal_rates_pass_through_untouched() -> None:
    resampler = Resampler(24_000, 24_000)
    assert np.array_equal(resampler.push(tone(777)), tone(777))
    assert len(resampler.drain()) == 0


def test_full_scale_is_clipped_and_never_wraps() -> None:
    square = np.where(np.arange(4_800) % 48 < 24, 32_767, -32_768).astype(np.int16)
    resampler = Resampler(24_000, 48_000)
    out = np.concatenate([resampler.push(square), resampler.drain()])
    wanted = np.repeat(square, 2)
    middle = slice(1_000, -1_000)
    settled = np.abs(np.diff(wanted.astype(int), prepend=0, append=0))
    calm = np.convolve(settled, np.ones(17), "same")[: len(wanted)] == 0
    assert (np.sign(out[: len(wanted)])[middle][calm[middle]] == np.sign(wanted)[middle][calm[middle]]).all()


def test_what_a_lower_rate_cannot_hold_is_removed_and_not_folded_down() -> None:
    resampler = Resampler(24_000, 8_000)
    out = np.concatenate([resampler.push(tone(24_000, hz=6_000)), resampler.drain()])
    assert np.abs(out[800:-800]).max() < 12
