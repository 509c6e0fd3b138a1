"""Ogg Opus (RFC 3533, RFC 7845): one logical stream, pages written as they fill, never a container per sentence."""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from realtime.audio.chunk import AudioChunk
from realtime.audio.opus import FRAME_MS
from realtime.audio.packetizer import Packetizer

__all__ = ["OggOpusEncoder", "OggOpusWriter"]

GRANULE_HZ = 48_000
MAX_PAGE_PACKETS = 50
"""A second, as RFC 7845 advises; a page has room for 255 segments, and a packet takes one for every 255 bytes."""
_BOS, _EOS = 0x02, 0x04
_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def _ogg_crc(page: bytes) -> int:
    """CRC-32 of RFC 3533 (polynomial 0x04c11db7, not reflected, initially 0) by way of zlib's reflected one."""
    reflected = zlib.crc32(page.translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)


class OggOpusWriter:
    """Packets -> pages. `pre_skip` is the encoder's look-ahead in 48 kHz samples."""

    def __init__(self, *, input_hz: int, pre_skip: int, serial: int) -> None:
        self._serial, self._pre_skip = serial, pre_skip
        self._sequence = 0
        self._head = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, pre_skip, input_hz, 0, 0)
        vendor = b"kingfisher"
        self._tags = b"OpusTags" + struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", 0)

    def header(self) -> bytes:
        """The two header pages; written once, before the first audio page."""
        return self._page([self._head], 0, _BOS) + self._page([self._tags], 0, 0)

    def page(self, packets: Sequence[bytes], end_granule: int, *, is_last: bool = False) -> bytes:
        """One page of 1 to MAX_PAGE_PACKETS packets. `end_granule` counts 48 kHz samples up to the page's end, pre-skip
        included; on the last page it may be smaller than the packets hold, which trims the padding at the end."""
        assert 1 <= len(packets) <= MAX_PAGE_PACKETS, f"{len(packets)} packets in one page"
        return self._page(packets, end_granule, _EOS if is_last else 0)

    def _page(self, packets: Sequence[bytes], granule: int, flags: int) -> bytes:
        lacing = bytearray()
        for packet in packets:
            lacing += b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255])
        assert len(lacing) <= 255, "a page holds at most 255 segments"
        header = struct.pack("<4sBBqIIIB", b"OggS", 0, flags, granule, self._serial, self._sequence, 0, len(lacing))
        body = bytes(lacing) + b"".join(packets)
        crc = _ogg_crc(header + body)
        self._sequence += 1
        return header[:22] + struct.pack("<I", crc) + header[26:] + body


class OggOpusEncoder:
    """One Ogg stream; the headers travel with the first audio, the end mark with the last. Without sound it stays
    empty."""

    def __init__(self, packetizer: Packetizer) -> None:
        self._packetizer = packetizer
        rate_hz = packetizer.opus.rate_hz
        self._scale = GRANULE_HZ // rate_hz
        self._packet_granules = packetizer.opus.frame_samples * self._scale
        pre_skip = packetizer.opus.lookahead_samples * self._scale
        self._writer = OggOpusWriter(input_hz=rate_hz, pre_skip=pre_skip, serial=secrets.randbits(32))
        self._granule = 0
        self._is_begun = False

    def encode(self, pcm: npt.NDArray[np.int16]) -> list[AudioChunk]:
        packets = self._packetizer.push(pcm)
        return [AudioChunk(len(packets) * FRAME_MS, self._pages(packets))] if packets else []

    def drain(self) -> list[AudioChunk]:
        packets, _ = self._packetizer.drain()
        return [AudioChunk(len(packets) * FRAME_MS, self._pages(packets))] if packets else []

    def discard(self) -> None:
        self._packetizer.discard()

    def close(self) -> list[AudioChunk]:
        """The last page trims the padding of its own packets; where a drain came before, that is out already, and
        the last page holds a packet that is trimmed away whole, since a page without one is no proper end."""
        packets, padding = self._packetizer.drain()
        if packets:
            trimmed = padding * self._scale
        elif self._is_begun:
            packets, trimmed = (self._packetizer.silence(),), self._packet_granules
        else:
            return []
        duration_ms = len(packets) * FRAME_MS - trimmed * 1000 / GRANULE_HZ
        return [AudioChunk(duration_ms, self._pages(packets, trimmed_granules=trimmed, is_last=True))]

    def _pages(self, packets: tuple[bytes, ...], *, trimmed_granules: int = 0, is_last: bool = False) -> bytes:
        data = b"" if self._is_begun else self._writer.header()
        self._is_begun = True
        for start in range(0, len(packets), MAX_PAGE_PACKETS):
            some = packets[start : start + MAX_PAGE_PACKETS]
            self._granule += len(some) * self._packet_granules
            if is_last and start + len(some) == len(packets):
                data += self._writer.page(some, self._granule - trimmed_granules, is_last=True)
            else:
                data += self._writer.page(some, self._granule)
        return data
