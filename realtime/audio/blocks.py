"""PCM of any length through a codec that takes blocks of a fixed size: MP3, AAC, FLAC."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.resample import Resampler

__all__ = ["BlockCodec", "BlockEncoder"]

Pcm = npt.NDArray[np.int16]


class BlockCodec(Protocol):
    """See realtime.audio.libav."""

    @property
    def rate_hz(self) -> int: ...

    @property
    def frame_samples(self) -> int: ...

    @property
    def delay_samples(self) -> int: ...

    def header(self) -> bytes: ...

    def encode(self, frame: Pcm) -> list[bytes]: ...

    def reset(self) -> None: ...


class BlockEncoder:
    """One continuous stream of frames; the header, if the format has one, travels with the first."""

    def __init__(self, resampler: Resampler, codec: BlockCodec) -> None:
        self._resampler, self._codec = resampler, codec
        self._held = np.zeros(0, np.int16)
        self._header = codec.header()
        self._in_samples = self._out_samples = 0
        """What the codec was given, and what a decoder can make of the frames that came out."""
        self._is_drained = True

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        self._is_drained = self._is_drained and len(pcm) == 0
        return self._chunk(self._push(self._resampler.push(pcm)))

    def drain(self) -> list[AudioChunk]:
        """The tail, and silence behind it until the sound inside the codec is out too."""
        if self._is_drained:
            return []
        self._is_drained = True
        frames = self._push(self._resampler.drain())
        size = self._codec.frame_samples
        frames += self._push(np.zeros(-len(self._held) % size, np.int16))
        needed_samples = self._in_samples + self._codec.delay_samples
        while self._out_samples < needed_samples:
            frames += self._push(np.zeros(size, np.int16))
        return self._chunk(frames)

    def discard(self) -> None:
        self._resampler.drain()
        self._held = self._held[:0]
        self._codec.reset()
        self._in_samples = self._out_samples = 0
        self._is_drained = True

    def close(self) -> list[AudioChunk]:
        return self.drain()

    def _push(self, pcm: Pcm) -> list[bytes]:
        held = np.concatenate([self._held, pcm])
        size = self._codec.frame_samples
        count = len(held) // size
        self._held = held[count * size :]
        frames = [frame for i in range(count) for frame in self._codec.encode(held[i * size : (i + 1) * size])]
        self._in_samples += count * size
        self._out_samples += len(frames) * size
        return frames

    def _chunk(self, frames: list[bytes]) -> list[AudioChunk]:
        if not frames:
            return []
        duration_ms = len(frames) * self._codec.frame_samples * 1000 / self._codec.rate_hz
        data, self._header = self._header + b"".join(frames), b""
        return [AudioChunk(duration_ms, data)]
