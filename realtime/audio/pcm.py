"""Samples as they are: s16le mono, without a header."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.resample import Resampler

__all__ = ["PcmEncoder"]

MIN_EVENT_BYTES = 1_026
"""Some clients in use drop audio events of 1024 bytes or less; whole samples above that."""


class PcmEncoder:
    def __init__(self, resampler: Resampler, rate_hz: int) -> None:
        self._resampler, self._rate_hz = resampler, rate_hz
        self._held = b""

    def encode(self, pcm: npt.NDArray[np.int16]) -> list[AudioChunk]:
        self._held += self._resampler.push(pcm).tobytes()
        return self._emit() if len(self._held) >= MIN_EVENT_BYTES else []

    def drain(self) -> list[AudioChunk]:
        """A rest too short for an event is lengthened with silence."""
        self._held += self._resampler.drain().tobytes()
        if not self._held:
            return []
        self._held = self._held.ljust(MIN_EVENT_BYTES, b"\0")
        return self._emit()

    def discard(self) -> None:
        self._resampler.drain()
        self._held = b""

    def close(self) -> list[AudioChunk]:
        return self.drain()

    def _emit(self) -> list[AudioChunk]:
        duration_ms = len(self._held) / 2 / self._rate_hz * 1000
        data, self._held = self._held, b""
        return [AudioChunk(duration_ms, data)]
