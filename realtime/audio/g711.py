"""Telephone audio, ITU-T G.711: one byte for each sample, by µ-law or A-law, without a header.

Events hold whole frames of 20 ms, as telephone networks pass them on: at 8 kHz a multiple of 160 bytes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.resample import Resampler

__all__ = ["G711Encoder", "alaw_bytes", "mulaw_bytes"]

Pcm = npt.NDArray[np.int16]
Bytes = npt.NDArray[np.uint8]

FRAME_MS = 20
_MULAW_BIAS, _MULAW_MAX = 33, 8158
"""In the 14 bits of G.711's table 2a."""


def _mulaw_table() -> Bytes:
    """The code of each int16, indexed by its bits as uint16 [65536]."""
    sample = np.arange(65_536).astype(np.uint16).view(np.int16).astype(np.int32) >> 2
    magnitude = np.minimum(np.abs(sample), _MULAW_MAX) + _MULAW_BIAS
    segment = np.floor(np.log2(magnitude)).astype(np.int32) - 5
    code = segment << 4 | (magnitude >> segment + 1) & 0xF
    return np.asarray(np.where(sample < 0, code, code | 0x80) ^ 0x7F, np.uint8)


def _alaw_table() -> Bytes:
    """The same by A-law, from the 13 bits of table 1a; even bits are inverted."""
    sample = np.arange(65_536).astype(np.uint16).view(np.int16).astype(np.int32) >> 3
    magnitude = np.where(sample < 0, ~sample, sample)  # no bias: -1 is as near to zero as 0 is
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int32) - 4, 0)
    code = segment << 4 | (magnitude >> np.maximum(segment, 1)) & 0xF
    return np.asarray(np.where(sample < 0, code, code | 0x80) ^ 0x55, np.uint8)


_TABLES = {"mulaw": _mulaw_table(), "alaw": _alaw_table()}


def mulaw_bytes(pcm: Pcm) -> Bytes:
    """int16 [N] -> uint8 [N]."""
    return _TABLES["mulaw"][pcm.view(np.uint16)]


def alaw_bytes(pcm: Pcm) -> Bytes:
    """int16 [N] -> uint8 [N]."""
    return _TABLES["alaw"][pcm.view(np.uint16)]


class G711Encoder:
    def __init__(self, resampler: Resampler, rate_hz: int, law: Literal["mulaw", "alaw"]) -> None:
        self._resampler, self._encode = resampler, mulaw_bytes if law == "mulaw" else alaw_bytes
        self._frame_samples = rate_hz * FRAME_MS // 1000
        self._held = np.zeros(0, np.int16)

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        return self._emit(self._resampler.push(pcm))

    def drain(self) -> list[AudioChunk]:
        """The last frame is filled with silence."""
        tail = self._resampler.drain()
        missing = -(len(self._held) + len(tail)) % self._frame_samples
        return self._emit(np.concatenate([tail, np.zeros(missing, np.int16)]))

    def discard(self) -> None:
        self._resampler.drain()
        self._held = self._held[:0]

    def close(self) -> list[AudioChunk]:
        return self.drain()

    def _emit(self, pcm: Pcm) -> list[AudioChunk]:
        held = np.concatenate([self._held, pcm])
        frames = len(held) // self._frame_samples
        ready, self._held = np.split(held, [frames * self._frame_samples])
        return [AudioChunk(frames * FRAME_MS, self._encode(ready).tobytes())] if frames else []
