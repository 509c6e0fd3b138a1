"""What a stream yields. Times are milliseconds, as on the wire (clients/PROTOCOL.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Alignment", "Audio", "Cancelled", "Event", "Finish", "Flushed", "Ready", "Segment", "Warning"]


@dataclass(frozen=True, slots=True)
class Ready:
    """The server holds a warm slot for this voice."""

    voice: str = ""
    sample_rate: int = 0
    request_id: str = ""
    limits: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Segment:
    """A word and when it is heard, in seconds from the beginning of its chunk."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """All words of a chunk that are known so far: it replaces the one before."""

    segments: tuple[Segment, ...] = ()
    audio_duration: float = 0.0
    is_estimate: bool = False
    """The server's model tells no times: the words share the chunk's by their lengths."""


@dataclass(frozen=True, slots=True)
class Audio:
    """`data` for byte formats, `packets` for `opus_packets`; `pts_ms` is its place in the utterance.

    On `/v1/tts/live/with-timestamp` the fields of its *chunk* (one piece of text) are set too; the last of a chunk
    may bring its `alignment` and no sound.
    """

    utterance: int = 0
    seq: int = 0
    pts_ms: float = 0.0
    duration_ms: float = 0.0
    data: bytes = b""
    packets: tuple[bytes, ...] = ()
    content: str = ""
    """The chunk's text."""
    alignment: Alignment | None = None
    chunk_seq: int = 0
    chunk_audio_offset_sec: float = 0.0
    """Where the chunk begins in the stream."""


@dataclass(frozen=True, slots=True)
class Flushed:
    seq: int = 0
    audio_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    utterance: int = 0
    spoken_text: str = ""
    remaining_text: str = ""
    audio_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Warning:
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    usage: dict[str, Any] = field(default_factory=dict)
    ttfa_ms: dict[str, float] | None = None
    """Time to first audio as the server saw it, in total and by part."""
    time_ms: float = 0.0


Event = Ready | Audio | Flushed | Cancelled | Warning | Finish
