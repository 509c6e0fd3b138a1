"""Received audio -> files and PCM. opuslib is needed only by what uses it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from kingfisher_client.errors import KingfisherError

__all__ = ["OpusPacketDecoder", "save_wav"]

OPUS_RATE_HZ = 48_000
MAX_PACKET_SAMPLES = OPUS_RATE_HZ * 120 // 1000


class OpusPacketDecoder:
    """Raw Opus packets -> s16le mono at 48 kHz. One per stream: the decoder carries state."""

    def __init__(self) -> None:
        try:
            import opuslib
        except Exception as error:  # opuslib raises a bare Exception when libopus is missing
            raise KingfisherError(
                "decoding Opus needs opuslib and the system library libopus (Debian: apt-get install libopus0)"
            ) from error
        self._decoder = opuslib.Decoder(OPUS_RATE_HZ, 1)

    def decode(self, packets: Iterable[bytes]) -> bytes:
        return b"".join(self._decoder.decode(packet, MAX_PACKET_SAMPLES) for packet in packets)


def save_wav(path: Path, pcm: bytes, rate_hz: int) -> None:
    """s16le mono with true sizes in the header (a stream's own WAV header cannot know them)."""
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate_hz, rate_hz * 2, 2, 16)
    header = struct.pack("<4sI4s", b"RIFF", 36 + len(pcm), b"WAVE") + fmt + struct.pack("<4sI", b"data", len(pcm))
    path.write_bytes(header + pcm)
