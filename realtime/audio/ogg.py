"""Ogg Opus (RFC 3533, RFC 7845): one logical stream, pages written as they fill, never per sentence."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

__all__ = ["OggOpusWriter"]

GRANULE_HZ = 48_000
_BOS, _EOS = 0x02, 0x04
_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def _ogg_crc(page: bytes) -> int:
    """CRC-32 of RFC 3533 (polynomial 0x04c11db7, not reflected, initially 0) by way of zlib's reflected one."""
    reflected = zlib.crc32(page.translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)


class OggOpusWriter:
    """`pre_skip` is the encoder's look-ahead in 48 kHz samples."""

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
        """One page. `end_granule` counts 48 kHz samples up to the page's end, pre-skip included; on the last page
        it may be smaller than the packets hold, which trims the padding at the end."""
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
