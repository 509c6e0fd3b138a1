"""The boundary between the realtime side and the engine.

The engine turns prompts into PCM frames. It knows no sockets, no asyncio, no sessions and no wire
format; the realtime side knows no tensors. Everything that crosses is plain data, so the engine can
move to a process of its own without either side changing.

Two threads call an `Engine`, and each method says which one:

* the *prefill* thread writes a slot's prompt into the KV cache while decode does not read that slot;
* the *decode* thread submits step n+1 before it collects step n.

Letters in shapes: K codebooks, T tokens, N samples. Units are in names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType, Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "Audio",
    "BadReference",
    "Decoded",
    "Engine",
    "EngineError",
    "Epoch",
    "Fault",
    "Limits",
    "Prefill",
    "PrefillResult",
    "PromptTooLong",
    "Sampling",
    "SlotId",
    "SlotRef",
    "StepPlan",
    "StepResult",
    "Ticket",
    "UnknownVoice",
    "Vocode",
    "Voice",
]

SlotId = NewType("SlotId", int)
Epoch = NewType("Epoch", int)

Codes = npt.NDArray[np.int16]
Pcm = npt.NDArray[np.int16]


class EngineError(Exception):
    """The engine cannot go on; the process should fail its sessions and exit."""


class PromptTooLong(ValueError):
    """The prompt and the frames asked for do not fit into a slot. The message holds the numbers."""


class BadReference(ValueError):
    """A reference clip cannot be used; the message says why (unreadable, too short, too long)."""


class UnknownVoice(KeyError):
    """No voice of that name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine can do, fixed at start."""

    slots: int
    """Rows of state; a slot serves one session at a time."""
    context_tokens: int
    """KV positions of one slot: prompt, history and generated frames together."""
    sample_rate_hz: int
    """Rate of `Audio.pcm`."""
    frame_samples: int
    """Samples of one codec frame (the hop)."""
    num_codebooks: int
    max_vocode_frames: int
    """Widest `Vocode.frames` in one plan."""
    max_pending_frames: int
    """Frames of one slot that may be decoded and not yet vocoded."""
    steps_in_flight: int
    """Steps worth submitting before the oldest is collected: 2, or 1 where `submit` computes at once."""
    is_latin_only: bool = False
    """The model was taught no letters but Latin ones."""

    @property
    def frame_s(self) -> float:
        return self.frame_samples / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class Voice:
    """A speaker: a reference clip as codes, with what it says.

    `codes` is int16 [K, T], read-only; T = 0 means the model's own default voice.
    """

    name: str
    transcript: str
    codes: Codes
    description: str = ""
    language: str = ""
    """What it speaks, as a tag of BCP 47; empty: not said."""

    @property
    def key(self) -> tuple[str, bytes]:
        """Cache key over the transcript and *every* codebook (not the first one alone)."""
        return self.transcript, self.codes.tobytes()


@dataclass(frozen=True, slots=True)
class Sampling:
    """Section 4.1 of the model page: filters at temperature 1, then temperature, then a race."""

    temperature: float = 0.7
    top_p: float = 0.8
    top_k: int = 30
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Prefill:
    """Make a slot ready to decode. Called on the prefill thread only.

    With `text=None` only the voice's prefix is written (the slot is *warm*). With text, the slot is
    ready to decode that unit. `continues` keeps the turns the slot already holds as context, so voice
    and pace carry over; the engine drops them by itself when they no longer fit.
    """

    slot: SlotId
    epoch: Epoch
    voice: Voice
    text: str | None = None
    continues: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    max_frames: int = 0
    """Frames the caller may decode for this unit; prompt + max_frames must fit the context."""


@dataclass(frozen=True, slots=True)
class PrefillResult:
    slot: SlotId
    epoch: Epoch
    prompt_tokens: int
    cached_tokens: int
    """Tokens taken from the voice-prefix cache or the slot's history instead of being computed."""
    seconds: float


@dataclass(frozen=True, slots=True)
class SlotRef:
    slot: SlotId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Vocode:
    """Turn the slot's next `frames` frames, counted from `first_frame` of the current unit, into PCM.

    May name frames that the same plan decodes. Frames of one slot are vocoded in order, each once.
    `reset` starts the codec afresh (first frame of an utterance).
    """

    slot: SlotId
    epoch: Epoch
    first_frame: int
    frames: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One engine step: first one frame for each row of `decode`, then the codec for `vocode`."""

    step: int
    decode: tuple[SlotRef, ...] = ()
    vocode: tuple[Vocode, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """`frame` counts from 0 at each unit. `ended`: the model said end-of-speech *instead of* a frame,
    so the unit has `frame` frames; later frames of this slot in flight are void. `char`: index into the unit's text of
    the character spoken in this frame, by the model's own attention; None where the model or backend cannot tell."""

    slot: SlotId
    epoch: Epoch
    frame: int
    ended: bool
    char: int | None = None


@dataclass(frozen=True, slots=True)
class Audio:
    """PCM int16 [frames * frame_samples], owned by the receiver."""

    slot: SlotId
    epoch: Epoch
    first_frame: int
    frames: int
    pcm: Pcm


@dataclass(frozen=True, slots=True)
class Fault:
    """One slot's job cannot go on (NaN, capacity); the others are unharmed."""

    slot: SlotId
    epoch: Epoch
    message: str


@dataclass(frozen=True, slots=True)
class StepResult:
    step: int
    decoded: tuple[Decoded, ...] = ()
    audio: tuple[Audio, ...] = ()
    faults: tuple[Fault, ...] = ()
    decode_s: float = 0.0
    vocode_s: float = 0.0


Ticket = Any
"""A submitted step. Opaque; give it to `collect` once, in order."""


class Engine(Protocol):
    """Implemented by `engine.runner.Runner` over a backend, and by `engine.null.NullEngine`."""

    @property
    def limits(self) -> Limits: ...

    @property
    def voices(self) -> Mapping[str, Voice]:
        """Voices by name; the first is the default. Any thread; entries are immutable."""
        ...

    def prefill(self, request: Prefill) -> PrefillResult:
        """Prefill thread. Raises PromptTooLong before any state changes."""
        ...

    def encode_reference(self, clip: bytes, transcript: str, name: str) -> Voice:
        """Clip thread: beside prefills and steps, as it touches no slot. Any common audio file -> a voice; without
        a transcript (empty) it is taken from the sound alone. Raises BadReference."""
        ...

    def fits(self, voice: Voice) -> bool:
        """Any thread. Whether this model can speak with a voice that was kept elsewhere: shape and range of its codes.
        Prefill takes it for granted."""
        ...

    def submit(self, plan: StepPlan) -> Ticket:
        """Decode thread. Starts a step and returns without waiting for its results."""
        ...

    def is_done(self, ticket: Ticket) -> bool:
        """Decode thread. Whether `collect` would not wait."""
        ...

    def collect(self, ticket: Ticket) -> StepResult:
        """Decode thread. Waits for that step. Raises EngineError."""
        ...

    def warm_up(self) -> None:
        """Before serving: run every shape once (graphs, caches, the default voice's prefix)."""
        ...

    def close(self) -> None: ...
