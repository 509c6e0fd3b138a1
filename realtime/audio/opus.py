"""Opus packets from PCM: the only place that touches libopus.

Restricted low delay (CELT alone): 2.5 ms of look-ahead instead of 6.5 ms, and about a quarter of the CPU time of the
speech modes at full complexity (73 against 290 µs for 20 ms at 24 kHz), which is what many streams need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FRAME_MS", "OPUS_RATES_HZ", "OpusEncoder", "OpusUnavailable"]

FRAME_MS = 20
OPUS_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
COMPLEXITY = 10


class OpusUnavailable(RuntimeError):
    """libopus is not installed; the message says what to install."""


def _library() -> Any:
    """Loaded on first use: PCM and WAV work without libopus."""
    try:
        import opuslib
    except Exception as error:  # opuslib raises a bare Exception when it cannot find the library
        raise OpusUnavailable(
            "Opus needs the system library libopus (Debian: apt-get install libopus0; macOS: brew install opus); "
            "formats pcm and wav work without it"
        ) from error
    return opuslib


class OpusEncoder:
    """20 ms packets of mono int16 at one of OPUS_RATES_HZ. Not thread-safe: one owner."""

    def __init__(self, rate_hz: int, bitrate: int | None) -> None:
        """`bitrate` in bit/s; None lets libopus choose. Raises OpusUnavailable."""
        opuslib = _library()
        self._encoder = opuslib.Encoder(rate_hz, 1, opuslib.APPLICATION_RESTRICTED_LOWDELAY)
        self._encoder.complexity = COMPLEXITY
        if bitrate is not None:
            self._encoder.bitrate = bitrate
        self.frame_samples = rate_hz * FRAME_MS // 1000
        self.lookahead_samples: int = self._encoder.lookahead
        """Delay of the decoder's output against the input, at `rate_hz`."""

    def encode(self, frame: npt.NDArray[np.int16]) -> bytes:
        """Exactly `frame_samples` samples -> one packet."""
        packet: bytes = self._encoder.encode(frame.tobytes(), self.frame_samples)
        return packet

    def reset(self) -> None:
        """Forget the signal so far, so that nothing of it rings on."""
        self._encoder.reset_state()
