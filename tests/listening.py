"""Listening to speech in tests: Whisper base, and word error rate on normalised words, as `evaluate` does it."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from engine.hearing import Recogniser, at_hearing_rate, word_errors, words

__all__ = ["recognise", "word_errors", "words"]


@cache
def whisper() -> Recogniser:
    return Recogniser("base")


def recognise(pcm: npt.NDArray[np.float32], rate_hz: int) -> str:
    """What Whisper hears in mono float32 [-1, 1] at any rate."""
    return whisper().hear(at_hearing_rate(pcm.astype(np.float32), rate_hz))
