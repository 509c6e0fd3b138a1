"""What the server says, one struct per event; the tables of clients/PROTOCOL.md give the meaning of each field.

A field that is UNSET is left out of the message.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from realtime.protocol.fish.timestamps import Alignment

__all__ = ["Audio", "Cancelled", "Error", "Finish", "Flushed", "Limits", "Log", "Pong", "Ready", "Reply", "Warn"]


class Reply(msgspec.Struct, frozen=True, tag_field="event"):
    """Base of all; the tag is the event's name."""


class Limits(msgspec.Struct, frozen=True):
    max_message_bytes: int
    max_stream_chars: int
    idle_s: float


class Ready(Reply, frozen=True, tag="ready"):
    request_id: str
    voice: str
    sample_rate: int
    frame_ms: float
    limits: Limits


class Audio(Reply, frozen=True, tag="audio"):
    time: float
    utterance: int
    seq: int
    pts_ms: float
    duration_ms: float
    audio: bytes | UnsetType = UNSET
    packets: tuple[bytes, ...] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    alignment: Alignment | UnsetType | None = UNSET
    chunk_seq: int | UnsetType = UNSET
    chunk_audio_offset_sec: float | UnsetType = UNSET


class Flushed(Reply, frozen=True, tag="flushed"):
    seq: int
    audio_ms: float


class Cancelled(Reply, frozen=True, tag="cancelled"):
    utterance: int
    spoken_text: str = ""
    remaining_text: str = ""
    audio_ms: float = 0.0


class Warn(Reply, frozen=True, tag="warning"):
    code: Literal["unknown_voice", "unit_too_long"]
    message: str


class Pong(Reply, frozen=True, tag="pong"):
    id: int | float | str | None


class Log(Reply, frozen=True, tag="log"):
    message: str


class Finish(Reply, frozen=True, tag="finish"):
    reason: Literal["stop", "error"]
    time: float
    usage: dict[str, float]
    ttfa_ms: dict[str, float] | None
    code: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


class Error(Reply, frozen=True, tag="error"):
    error: str
    code: str
    request_id: str
