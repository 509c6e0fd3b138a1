"""Speed and volume in front of an encoder."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk, join_chunks
from realtime.audio.stretch import TimeStretch

__all__ = ["ShapedEncoder", "louder"]

Pcm = npt.NDArray[np.int16]

FULL_SCALE = 32_767.0
KNEE = 0.8
"""Share of full scale from which loud samples are bent instead of cut off."""


def louder(pcm: Pcm, gain_db: float) -> Pcm:
    """Each sample by the gain; what passes the knee approaches full scale and never reaches past it."""
    level = pcm.astype(np.float32) * np.float32(10 ** (gain_db / 20) / FULL_SCALE)
    above = np.abs(level) > KNEE
    bent = KNEE + (1 - KNEE) * np.tanh((np.abs(level[above]) - KNEE) / (1 - KNEE))
    level[above] = np.copysign(bent, level[above])
    rounded: Pcm = np.rint(level * FULL_SCALE).astype(np.int16)
    return rounded


class _Encoder(Protocol):
    def encode(self, pcm: Pcm) -> list[AudioChunk]: ...

    def drain(self) -> list[AudioChunk]: ...

    def discard(self) -> None: ...

    def close(self) -> list[AudioChunk]: ...


class ShapedEncoder:
    """An AudioEncoder (see realtime.audio.encoder) around another one."""

    def __init__(self, encoder: _Encoder, speed: float, volume_db: float, engine_rate_hz: int) -> None:
        self._encoder, self._volume_db = encoder, volume_db
        self._stretch = TimeStretch(speed, engine_rate_hz) if speed != 1.0 else None

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        if self._stretch is not None:
            pcm = self._stretch.push(pcm)
        return self._encoder.encode(self._at_volume(pcm))

    def drain(self) -> list[AudioChunk]:
        return join_chunks(self._rest() + self._encoder.drain())

    def discard(self) -> None:
        if self._stretch is not None:
            self._stretch.drain()
        self._encoder.discard()

    def close(self) -> list[AudioChunk]:
        return join_chunks(self._rest() + self._encoder.close())

    def _rest(self) -> list[AudioChunk]:
        return [] if self._stretch is None else self._encoder.encode(self._at_volume(self._stretch.drain()))

    def _at_volume(self, pcm: Pcm) -> Pcm:
        return louder(pcm, self._volume_db) if self._volume_db else pcm
