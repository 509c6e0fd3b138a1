"""Samples as they are: s16le mono, bare or behind one WAV header."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.resample import Resampler

__all__ = ["PcmEncoder", "wav_header"]

MIN_EVENT_BYTES = 1_026
"""Some clients in use drop audio events of 1024 bytes or less; whole samples above that."""


def wav_header(rate_hz: int, data_bytes: int | None = None) -> bytes:
    """A WAV header, mono s16le. `data_bytes` None: a stream of unknown length, both sizes 0xFFFFFFFF."""
    unknown = 0xFFFFFFFF
    data_size = unknown if data_bytes is None else data_bytes
    riff_size = unknown if data_bytes is None else data_bytes + 36
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate_hz, rate_hz * 2, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", riff_size, b"WAVE") + fmt + struct.pack("<4sI", b"data", data_size)


class PcmEncoder:
    """`header` goes in front of the first samples and nowhere else; a stream without sound stays empty."""

    def __init__(self, resampler: Resampler, rate_hz: int, header: bytes = b"") -> None:
        self._resampler, self._rate_hz, self._header = resampler, rate_hz, header
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
        data, self._held, self._header = self._header + self._held, b"", b""
        return [AudioChunk(duration_ms, data)]
