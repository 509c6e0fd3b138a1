"""What the sound itself says: streams of a run decoded, their length and seams checked, the first audible sample found.

Done after the run, so that decoding costs the load generator nothing while it measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from kingfisher_client.sound import OpusPacketDecoder

__all__ = ["Sound", "examine", "listen"]

RATE_HZ = 48_000
AUDIBLE = 10 ** (-50 / 20)
"""-50 dBFS"""
CLICK_RATIO = 40.0
"""A step between two samples so many times the 99th percentile of the stream's steps is no speech."""


@dataclass(frozen=True, slots=True)
class Sound:
    decoded_ms: float
    leading_silence_ms: float
    """Before the first sample above -50 dBFS; all of it, if there is none."""
    clicks: int


def examine(pcm: npt.NDArray[np.int16], rate_hz: int) -> Sound:
    """Pure; int16 [N]."""
    wave = pcm.astype(np.float32) / 32768
    loud = np.flatnonzero(np.abs(wave) > AUDIBLE)
    first = int(loud[0]) if len(loud) else len(wave)
    steps = np.abs(np.diff(wave))
    usual = float(np.percentile(steps, 99)) if len(steps) else 0.0
    clicks = int((steps > max(CLICK_RATIO * usual, 0.05)).sum())
    return Sound(len(wave) / rate_hz * 1000, first / rate_hz * 1000, clicks)


def listen(packets: Sequence[bytes]) -> Sound:
    """Raw Opus packets of a whole stream, decoded with libopus."""
    pcm = np.frombuffer(OpusPacketDecoder().decode(packets), np.int16)
    return examine(pcm, RATE_HZ)
