"""Bare samples behind one WAV header."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk

__all__ = ["Samples", "WavEncoder", "wav_header"]

Pcm = npt.NDArray[np.int16]
Samples = Literal["pcm", "f32", "mulaw", "alaw"]

_TAG_AND_BYTES: dict[Samples, tuple[int, int]] = {"pcm": (1, 2), "f32": (3, 4), "alaw": (6, 1), "mulaw": (7, 1)}
"""Of each kind: its number in the format, and the bytes of a sample."""
_UNKNOWN = 0xFFFFFFFF


def wav_header(rate_hz: int, data_bytes: int | None = None, samples: Samples = "pcm") -> bytes:
    """A header, mono. `data_bytes` None: a stream of unknown length, all sizes 0xFFFFFFFF. What is not PCM tells its
    samples too, in a chunk `fact`, as the format wants it."""
    tag, width = _TAG_AND_BYTES[samples]
    form = struct.pack("<HHIIHH", tag, 1, rate_hz, rate_hz * width, width, width * 8)
    fact = b""
    if samples != "pcm":
        form += struct.pack("<H", 0)  # no extension follows
        fact = struct.pack("<4sII", b"fact", 4, _UNKNOWN if data_bytes is None else data_bytes // width)
    head = struct.pack("<4s4sI", b"WAVE", b"fmt ", len(form)) + form + fact
    riff_size = _UNKNOWN if data_bytes is None else len(head) + 8 + data_bytes
    data_size = _UNKNOWN if data_bytes is None else data_bytes
    return struct.pack("<4sI", b"RIFF", riff_size) + head + struct.pack("<4sI", b"data", data_size)


class _Encoder(Protocol):
    def encode(self, pcm: Pcm) -> list[AudioChunk]: ...

    def drain(self) -> list[AudioChunk]: ...

    def discard(self) -> None: ...

    def close(self) -> list[AudioChunk]: ...


class WavEncoder:
    """An AudioEncoder (see realtime.audio.encoder) around one of bare samples. A stream without sound stays empty."""

    def __init__(self, samples: _Encoder, header: bytes) -> None:
        self._samples, self._header = samples, header

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        return self._headed(self._samples.encode(pcm))

    def drain(self) -> list[AudioChunk]:
        return self._headed(self._samples.drain())

    def discard(self) -> None:
        self._samples.discard()

    def close(self) -> list[AudioChunk]:
        return self._headed(self._samples.close())

    def _headed(self, chunks: list[AudioChunk]) -> list[AudioChunk]:
        if not chunks or not self._header:
            return chunks
        first = replace(chunks[0], data=self._header + chunks[0].data)
        self._header = b""
        return [first, *chunks[1:]]
