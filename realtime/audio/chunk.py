"""One message's worth of encoded audio."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AudioChunk", "join_chunks"]


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """`data` for byte streams (pcm, wav, Ogg Opus); `packets` for raw Opus. Exactly one of the two is used."""

    duration_ms: float
    data: bytes = b""
    packets: tuple[bytes, ...] = ()


def join_chunks(chunks: list[AudioChunk]) -> list[AudioChunk]:
    """Consecutive chunks of one stream as one; of none, none."""
    if len(chunks) < 2:
        return chunks
    packets = tuple(packet for chunk in chunks for packet in chunk.packets)
    data = b"".join(chunk.data for chunk in chunks)
    return [AudioChunk(sum(chunk.duration_ms for chunk in chunks), data, packets)]
