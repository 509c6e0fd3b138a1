"""PCM of any length -> Opus packets of 20 ms, with the carry from call to call and the tail at the end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.opus import FRAME_MS, OpusEncoder
from realtime.audio.resample import Resampler

__all__ = ["OpusPacketsEncoder", "Packetizer"]

Pcm = npt.NDArray[np.int16]


class Packetizer:
    def __init__(self, resampler: Resampler, opus: OpusEncoder) -> None:
        self.opus = opus
        self._resampler = resampler
        self._held = np.zeros(0, np.int16)
        self._is_drained = True

    def push(self, pcm: Pcm) -> tuple[bytes, ...]:
        """int16 [N] at the engine's rate -> the packets that are full."""
        self._is_drained = self._is_drained and len(pcm) == 0
        return self._encode(self._resampler.push(pcm))

    def drain(self) -> tuple[tuple[bytes, ...], int]:
        """(packets, samples of silence at the end of the last one). The sound inside the encoder's look-ahead comes
        out too. Nothing pushed since the last drain: no packets."""
        if self._is_drained:
            return (), 0
        self._is_drained = True
        packets = self._encode(self._resampler.drain())
        needed = len(self._held) + self.opus.lookahead_samples
        padding = -needed % self.opus.frame_samples
        tail = np.zeros(self.opus.lookahead_samples + padding, np.int16)
        return packets + self._encode(tail), padding

    def silence(self) -> bytes:
        """One packet of it, between runs."""
        assert self._is_drained, "there is sound to come first"
        (packet,) = self.opus.encode(np.zeros(self.opus.frame_samples, np.int16))
        return packet

    def discard(self) -> None:
        self._resampler.drain()
        self._held = self._held[:0]
        self.opus.reset()
        self._is_drained = True

    def _encode(self, pcm: Pcm) -> tuple[bytes, ...]:
        held = np.concatenate([self._held, pcm]) if len(self._held) else pcm
        whole = len(held) - len(held) % self.opus.frame_samples
        self._held = held[whole:]
        return self.opus.encode(held[:whole])


class OpusPacketsEncoder:
    """Raw packets, all of one call in one chunk."""

    def __init__(self, packetizer: Packetizer) -> None:
        self._packetizer = packetizer

    def encode(self, pcm: Pcm) -> list[AudioChunk]:
        return self._chunk(self._packetizer.push(pcm))

    def drain(self) -> list[AudioChunk]:
        packets, _ = self._packetizer.drain()
        return self._chunk(packets)

    def discard(self) -> None:
        self._packetizer.discard()

    def close(self) -> list[AudioChunk]:
        return self.drain()

    @staticmethod
    def _chunk(packets: tuple[bytes, ...]) -> list[AudioChunk]:
        return [AudioChunk(len(packets) * FRAME_MS, packets=packets)] if packets else []
