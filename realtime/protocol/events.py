"""What a context tells its shell to do. Plain data; the shell turns it into scheduler commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from realtime.audio.pauses import Pauses

AudioFormat = Literal[
    "opus",
    "opus_packets",
    "pcm",
    "f32",
    "mulaw",
    "alaw",
    "wav",
    "wav_f32",
    "wav_mulaw",
    "wav_alaw",
    "mp3",
    "aac",
    "flac",
]
"""`wav` holds pcm, s16le; behind the others is what their names say."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    format: AudioFormat = "opus"
    sample_rate_hz: int | None = None
    """None: the voice's own rate (48000 for opus)."""
    opus_bitrate: int | None = 32000
    """bit/s; None: libopus chooses."""
    mp3_bitrate: int = 128_000
    """bit/s, constant."""
    speed: float = 1.0
    """Of speech, at the same pitch."""
    volume_db: float = 0.0


@dataclass(frozen=True, slots=True)
class Reference:
    """Whose voice is to be spoken with."""

    clips: tuple[bytes, ...] = field(repr=False)
    """One or more, which follow one another."""
    text: str
    """What all of them say; empty: not known."""


@dataclass(frozen=True, slots=True)
class UseVoice:
    """The context's slot must hold this voice; often it does already. Exactly one of the two is set."""

    name: str | None
    reference: Reference | None


@dataclass(frozen=True, slots=True)
class Begin:
    utterance: int
    output: OutputSpec
    temperature: float
    top_p: float
    seed: int
    max_lead_s: float
    new_stream: bool
    """True for a `start` (new container), False for the utterance that follows a `cancel`."""


@dataclass(frozen=True, slots=True)
class Speak:
    utterance: int
    unit: int
    text: str
    """Normalised text that holds at least one letter or digit."""
    pauses: Pauses


@dataclass(frozen=True, slots=True)
class Mark:
    utterance: int
    seq: int


@dataclass(frozen=True, slots=True)
class End:
    utterance: int


@dataclass(frozen=True, slots=True)
class Cancel:
    utterance: int


@dataclass(frozen=True, slots=True)
class CloseStream:
    """All audio is out: close the container; `Context.stream_closed` follows."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A stream ended (its `finish` is among the frames). For the shell's figures."""

    reason: Literal["stop", "error"]
    ttfa_ms: float | None
    """First text to first audio; None: there was no audio."""


SessionEvent = UseVoice | Begin | Speak | Mark | End | Cancel | CloseStream | Finished
