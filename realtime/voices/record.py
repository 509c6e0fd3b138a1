"""A voice somebody uploaded, as it lies on disk: one file holds all of it, so that there is never half a voice."""

from __future__ import annotations

import zlib
from typing import Literal

import msgspec

__all__ = ["BadRecord", "Visibility", "VoiceRecord", "decode_record", "encode_record"]

Visibility = Literal["public", "unlist", "private"]

_MAGIC = b"kfvoice1"


class BadRecord(ValueError):
    """The bytes are no record, or were damaged; the message says how."""


class VoiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    transcript: str
    """What the clips say, one after the other; may be empty."""
    codes: bytes
    """int16, little-endian, [codebooks, frames] in C order."""
    codebooks: int
    description: str = ""
    tags: tuple[str, ...] = ()
    languages: tuple[str, ...] = ("en",)
    visibility: Visibility = "private"
    created_at: str = ""
    """RFC 3339, UTC."""
    updated_at: str = ""
    owner: str = ""
    """Who made it, as `realtime.server.auth` names keys; empty: it is everybody's."""


def encode_record(record: VoiceRecord) -> bytes:
    body = msgspec.msgpack.encode(record)
    return _MAGIC + zlib.crc32(body).to_bytes(4, "big") + body


def decode_record(data: bytes) -> VoiceRecord:
    """Raises BadRecord."""
    body = data[12:]
    if data[:8] != _MAGIC:
        raise BadRecord("it does not begin like a voice")
    if zlib.crc32(body) != int.from_bytes(data[8:12], "big"):
        raise BadRecord("its check sum is wrong")
    try:
        record = msgspec.msgpack.decode(body, type=VoiceRecord)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRecord(str(error)) from None
    if record.codebooks < 1 or len(record.codes) % (2 * record.codebooks):
        raise BadRecord(f"{len(record.codes)} bytes of codes do not fill {record.codebooks} codebooks")
    return record
