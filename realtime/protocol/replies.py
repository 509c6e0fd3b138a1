"""What a context has to say to its client, whatever the wire format: a dialect puts it into its own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from realtime.audio.chunk import AudioChunk

__all__ = ["Audio", "Cancelled", "Finish", "Flushed", "Reply", "Warm", "Warning", "WordTiming"]


@dataclass(frozen=True, slots=True)
class WordTiming:
    """When a word of the client's text is heard; milliseconds of the stream's audio."""

    text: str
    start_ms: float
    end_ms: float
    is_estimate: bool = False
    """Not from the model's own alignment: the unit's words share its time by their lengths."""


@dataclass(frozen=True, slots=True)
class Warm:
    """The context's slot holds this voice's prefix: speech can begin without delay."""

    voice: str


@dataclass(frozen=True, slots=True)
class Audio:
    chunk: AudioChunk
    time_ms: float
    """Since the stream's start."""
    utterance: int
    seq: int
    """Counts the chunks of an utterance from 0."""
    pts_ms: float
    """Audio of the utterance before this chunk."""
    unit: int | None
    """Number of the unit it belongs to; None: the container's end."""
    text: str
    """The unit's text as the client wrote it, with its first audio; else empty."""
    timings: tuple[WordTiming, ...] = ()
    """The words whose times became known with this chunk, in order."""

    @property
    def has_sound(self) -> bool:
        """False: it brings nothing but timings (and `seq` is the next chunk's)."""
        return bool(self.chunk.data or self.chunk.packets)


@dataclass(frozen=True, slots=True)
class Flushed:
    """All audio of the text before the flush was sent."""

    seq: int
    """Counts the flushes of a stream from 1."""
    audio_ms: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    utterance: int
    spoken_text: str = ""
    remaining_text: str = ""
    audio_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Warning:
    code: Literal["unknown_voice", "unit_too_long"]
    message: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The one end of a stream."""

    code: str | None
    """What went wrong; None: nothing."""
    message: str
    time_ms: float
    chars: int
    utf8_bytes: int
    audio_ms: float
    ttfa_ms: dict[str, float] | None
    """First text to first audio, whole ("total") and by phase; None: there was no audio."""


Reply = Warm | Audio | Flushed | Cancelled | Warning | Finish
