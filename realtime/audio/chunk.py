"""One message's worth of encoded audio."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AudioChunk"]


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """`data` for byte streams (pcm, wav, Ogg Opus); `packets` for raw Opus. Exactly one of the two is used."""

    duration_ms: float
    data: bytes = b""
    packets: tuple[bytes, ...] = ()
