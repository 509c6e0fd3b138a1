"""Sample-rate conversion of a stream, with the filter's phase and history carried from chunk to chunk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

__all__ = ["Resampler"]

Pcm = npt.NDArray[np.int16]


class Resampler:
    """int16 mono at one rate -> another. Equal rates pass through untouched."""

    def __init__(self, source_hz: int, target_hz: int) -> None:
        self._stream = None
        if source_hz != target_hz:
            # float32 inside: soxr would dither int16, and a stream must not depend on how it was cut.
            self._stream = soxr.ResampleStream(source_hz, target_hz, 1, dtype="float32", quality="HQ")

    def push(self, pcm: Pcm) -> Pcm:
        """The samples that are certain so far; the filter holds a few milliseconds back."""
        return self._convert(pcm, last=False) if self._stream is not None else pcm

    def drain(self) -> Pcm:
        """What the filter still holds. The next `push` starts a new run."""
        if self._stream is None:
            return np.zeros(0, np.int16)
        tail = self._convert(np.zeros(0, np.int16), last=True)
        self._stream.clear()
        return tail

    def _convert(self, pcm: Pcm, *, last: bool) -> Pcm:
        assert self._stream is not None
        out = self._stream.resample_chunk(pcm.astype(np.float32), last=last)
        clipped: Pcm = np.clip(np.rint(out), -32768, 32767).astype(np.int16)
        return clipped
