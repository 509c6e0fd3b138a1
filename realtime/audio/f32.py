"""Samples as 32-bit floats between -1 and 1: little-endian, mono, without a header."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.resample import Resampler

__all__ = ["F32Encoder"]

Pcm = npt.NDArray[np.int16]

FULL_SCALE = 32_768


class F32Encoder:
    def __init__(self, resampler: Resampler, rate_hz: int) -> None:
        self._resampler, self._rate_hz = resampler, rate_hz

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        return self._chunk(self._resampler.push(pcm))

    def drain(self) -> list[AudioChunk]:
        return self._chunk(self._resampler.drain())

    def discard(self) -> None:
        self._resampler.drain()

    def close(self) -> list[AudioChunk]:
        return self.drain()

    def _chunk(self, pcm: Pcm) -> list[AudioChunk]:
        if not len(pcm):
            return []
        samples = (pcm.astype(np.float32) / FULL_SCALE).astype("<f4")
        return [AudioChunk(len(pcm) / self._rate_hz * 1000, samples.tobytes())]
