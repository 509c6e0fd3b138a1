"""The events of the live protocol as typed structs: what clients send, and the fields of what they get.

`None` always means "the default", as clients send many nulls; unknown fields are ignored by msgspec.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "Cancel",
    "ClientMessage",
    "Flush",
    "Ping",
    "Prosody",
    "ReferenceClip",
    "Start",
    "StartRequest",
    "Stop",
    "Text",
]


class ReferenceClip(msgspec.Struct):
    audio: bytes
    """In JSON: base64."""
    text: str = ""


class Prosody(msgspec.Struct):
    speed: float | None = None
    volume: float | None = None


class StartRequest(msgspec.Struct):
    """One schema for all of Fish's fields that we read; see clients/PROTOCOL.md for ranges and defaults."""

    text: str | None = None
    reference_id: str | list[str] | None = None
    voice: str | None = None
    references: list[ReferenceClip | list[ReferenceClip]] | None = None
    format: str | None = None
    sample_rate: int | None = None
    mp3_bitrate: int | None = None
    opus_bitrate: int | None = None
    latency: str | None = None
    prosody: Prosody | None = None
    chunk_length: int | None = None
    normalize: bool | None = None
    language: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_lead_s: float | None = None


class Start(msgspec.Struct):
    request: msgspec.Raw = msgspec.Raw(b"\xc0")
    """A map or nil, read by `realtime.protocol.fish.request`: a bad field there is the stream's fault, not the
    socket's."""
    debug: bool | None = None


class Text(msgspec.Struct):
    text: str | None = None


class Flush(msgspec.Struct):
    pass


class Stop(msgspec.Struct):
    pass


class Cancel(msgspec.Struct):
    played_ms: float | None = None


class Ping(msgspec.Struct):
    id: int | float | str | None = None
    """Sent back as it came, so it must be something that can be: no maps, no lists."""


ClientMessage = Start | Text | Flush | Stop | Cancel | Ping
