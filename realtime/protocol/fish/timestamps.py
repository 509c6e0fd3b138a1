"""The with-timestamp forms: what each audio event adds to say when its words are heard.

A *chunk* is one unit of text. Its alignment is a snapshot of the whole chunk so far, in seconds from the chunk's
beginning, so a client replaces what it holds for that `chunk_seq`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from realtime.protocol.replies import Audio

__all__ = ["Alignment", "ChunkTimes", "Segment", "StreamTimes"]


class Segment(msgspec.Struct, frozen=True):
    text: str
    start: float
    end: float


class Alignment(msgspec.Struct, frozen=True, omit_defaults=True):
    segments: tuple[Segment, ...]
    audio_duration: float
    is_estimate: bool = False
    """Ours: at least one of the times is."""


class ChunkTimes(msgspec.Struct, frozen=True):
    content: str
    alignment: Alignment | None
    chunk_seq: int
    chunk_audio_offset_sec: float


@dataclass(slots=True)
class StreamTimes:
    """From one `start` to its `finish`."""

    _chunk: tuple[int, int | None] | None = None
    """Utterance and unit of the chunk under way."""
    _seq: int = -1
    _content: str = ""
    _offset_ms: float = 0.0
    _audio_ms: float = 0.0
    """Of the stream, all chunks together."""
    _segments: list[Segment] = field(default_factory=list)
    _is_estimate: bool = False

    def take(self, audio: Audio) -> ChunkTimes:
        """The fields that go with this audio. The container's end belongs to the last chunk."""
        chunk = (audio.utterance, audio.unit)
        if audio.unit is not None and chunk != self._chunk:
            self._chunk, self._seq = chunk, self._seq + 1
            self._content, self._offset_ms = audio.text, self._audio_ms
            self._segments, self._is_estimate = [], False
        self._audio_ms += audio.chunk.duration_ms
        self._segments += [
            Segment(word.text, self._since(word.start_ms), self._since(word.end_ms)) for word in audio.timings
        ]
        self._is_estimate |= any(word.is_estimate for word in audio.timings)
        duration_s = round((self._audio_ms - self._offset_ms) / 1000, 4)
        alignment = Alignment(tuple(self._segments), duration_s, self._is_estimate) if self._segments else None
        return ChunkTimes(self._content, alignment, max(0, self._seq), round(self._offset_ms / 1000, 4))

    def _since(self, stream_ms: float) -> float:
        return round(max(0.0, stream_ms - self._offset_ms) / 1000, 4)
