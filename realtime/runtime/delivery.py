"""What reaches the event loop: scheduler outputs with the audio encoded."""

from __future__ import annotations

from dataclasses import dataclass

from realtime.audio.chunk import AudioChunk
from realtime.scheduler.job import (
    Failed,
    Heard,
    MarkReached,
    SessionId,
    SpeechTimes,
    UnitDone,
    UtteranceDone,
    UtteranceId,
    Warm,
)

__all__ = ["Delivery", "StreamClosed", "UnitChunk"]


@dataclass(frozen=True, slots=True)
class UnitChunk:
    """Encoded audio of a unit. `times` and `encode_s` on the first of an utterance."""

    session: SessionId
    utterance: UtteranceId
    unit: int
    chunk: AudioChunk
    times: SpeechTimes | None = None
    encode_s: float = 0.0
    heard: tuple[Heard, ...] = ()
    """What came to be known with this chunk; the encoder may hold some of that sound still."""


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """The container is complete; `chunk` holds its last bytes, if there are any."""

    session: SessionId
    utterance: UtteranceId
    chunk: AudioChunk | None


Delivery = Warm | UnitChunk | UnitDone | MarkReached | UtteranceDone | StreamClosed | Failed
