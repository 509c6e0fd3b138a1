"""What the sound says: silence in front, clicks, length."""

from __future__ import annotations

import numpy as np
import pytest

from loadtest.player import Arrival, rfc3550_jitter_s
from loadtest.rider import examine

RATE = 48_000


def tone(seconds: float) -> np.ndarray:
    return (np.sin(np.arange(int(seconds * RATE)) * 2 * np.pi * 200 / RATE) * 8_000).astype(np.int16)


def test_the_silence_in_front_is_found() -> None:
    sound = examine(np.concatenate([np.zeros(RATE // 10, np.int16), tone(0.2)]), RATE)
    assert sound.decoded_ms == pytest.approx(300)
    assert sound.leading_silence_ms == pytest.approx(100, abs=1)
    assert sound.clicks == 0


def test_a_jump_in_the_wave_is_a_click() -> None:
    wave = tone(0.3)
    wave[5_000] = -30_000
    assert examine(wave, RATE).clicks > 0


def test_silence_is_all_silence() -> None:
    assert examine(np.zeros(480, np.int16), RATE).leading_silence_ms == pytest.approx(10)
    assert examine(np.zeros(0, np.int16), RATE).decoded_ms == 0


def test_paced_messages_have_no_jitter_and_a_late_one_a_sixteenth_of_its_delay_twice() -> None:
    paced = [Arrival(0.02 * i, 0.02) for i in range(50)]
    assert rfc3550_jitter_s(paced) == pytest.approx(0)
    late = [*paced[:-2], Arrival(paced[-2].at_s + 0.016, 0.02), paced[-1]]
    assert rfc3550_jitter_s(late) == pytest.approx(0.001 + (0.016 - 0.001) / 16)
