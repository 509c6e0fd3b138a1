"""Commands into the scheduler and outputs out of it: frozen plain data, safe to hand between threads.

A *session* is one socket. A session speaks one *utterance* at a time; an utterance is a queue of
*units* (pieces of text, each one generation of the model) and *marks* (flush acknowledgements).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from engine.api import Pcm, Sampling, Voice
from realtime.audio.pauses import AS_SPOKEN, Pauses

SessionId = NewType("SessionId", int)
UtteranceId = NewType("UtteranceId", int)


# ---- commands: event loop -> engine side -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Open:
    """A session wants a slot, warm with `voice`. Sent at connect and again when the voice changes."""

    session: SessionId
    voice: Voice


@dataclass(frozen=True, slots=True)
class Begin:
    """A new utterance; earlier ones of the session are over."""

    session: SessionId
    utterance: UtteranceId
    sampling: Sampling
    max_lead_s: float
    speed: float = 1.0
    """Seconds of the model's sound that a listener hears in one second."""


@dataclass(frozen=True, slots=True)
class Speak:
    """One more unit. `max_frames` bounds a model that never stops. `sent_s`: when it was handed over, if that is to
    count among the times; by the clock that the scheduler is told."""

    session: SessionId
    utterance: UtteranceId
    unit: int
    text: str
    max_frames: int
    pauses: Pauses = AS_SPOKEN
    sent_s: float | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """Report back, in stream order, when everything before has been vocoded."""

    session: SessionId
    utterance: UtteranceId
    seq: int


@dataclass(frozen=True, slots=True)
class End:
    """No more units; UtteranceDone follows the last audio."""

    session: SessionId
    utterance: UtteranceId


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop the utterance now; nothing more of it comes out."""

    session: SessionId
    utterance: UtteranceId


@dataclass(frozen=True, slots=True)
class Close:
    """The session is gone; its slot is free at the next plan."""

    session: SessionId


Command = Open | Begin | Speak | Mark | End | Cancel | Close


# ---- outputs: engine side -> the session's worker -> event loop --------------------------------


@dataclass(frozen=True, slots=True)
class Warm:
    session: SessionId
    voice: Voice


@dataclass(frozen=True, slots=True)
class SpeechTimes:
    """Seconds from handing over the first unit of an utterance to its first sound, by phase."""

    admission_s: float
    """Until its prefill was ordered: for a slot, and behind the prefills of others."""
    queue_s: float
    """For the steps that were under way, and on the ways between the threads."""
    prefill_s: float
    decode_s: float
    vocode_s: float
    made_s: float
    """When the sound was there."""


@dataclass(frozen=True, slots=True)
class Heard:
    """At this time of the unit's sound (seconds, at the model's own speed) this character of its text is spoken."""

    unit: int
    at_s: float
    char: int


@dataclass(frozen=True, slots=True)
class UnitAudio:
    """PCM int16 at the engine's rate. `times` only on the first of an utterance. `heard`: of each frame, where the
    engine can tell."""

    session: SessionId
    utterance: UtteranceId
    unit: int
    pcm: Pcm
    times: SpeechTimes | None = None
    heard: tuple[Heard, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitDone:
    """All audio of the unit went out before this. `is_cut`: it hit its frame limit. `drained`: neither
    another unit nor the end is queued, so the encoder should push out what it holds."""

    session: SessionId
    utterance: UtteranceId
    unit: int
    is_cut: bool
    drained: bool


@dataclass(frozen=True, slots=True)
class MarkReached:
    session: SessionId
    utterance: UtteranceId
    seq: int


@dataclass(frozen=True, slots=True)
class UtteranceDone:
    session: SessionId
    utterance: UtteranceId


@dataclass(frozen=True, slots=True)
class Failed:
    """The utterance (or, with utterance None, the session's slot) cannot go on."""

    session: SessionId
    utterance: UtteranceId | None
    code: str
    message: str


Output = Warm | UnitAudio | UnitDone | MarkReached | UtteranceDone | Failed
