"""What the scheduler keeps of a session and its utterance. Plain data with the arithmetic that belongs to it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.api import Epoch, PrefillResult, Sampling, SlotId, Voice
from realtime.audio.pauses import PauseLimiter
from realtime.scheduler.job import Heard, Mark, SessionId, Speak, UtteranceId

__all__ = ["Generation", "Needs", "Session", "Speech"]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a unit under way asks of the clock, as long as nothing new is planned or heard of it."""

    step_s: float
    """From when it needs a step; infinite where it waits for one to be collected."""
    aside_until_s: float
    """So long its listener has sound enough to leave the device to somebody's first one."""


@dataclass(slots=True)
class Generation:
    """One unit while the model works on it. Frames count from 0."""

    unit: int
    epoch: Epoch
    max_frames: int
    is_armed: bool = False
    """Its prefill is done, so it may decode."""
    submitted: int = 0
    """Frames planned for decode."""
    known: int = 0
    """Frames whose result was collected."""
    end: int | None = None
    """How many frames the unit has, once that is known."""
    is_cut: bool = False
    """It ended because it reached max_frames."""
    vocoded: int = 0
    """Frames planned for the codec."""
    delivered: int = 0
    """Frames whose audio has come."""
    told: int = 0
    """Frames of which the listener has been told what is said in them."""
    needs: Needs | None = None
    """See realtime.scheduler.stepping; None: to be found anew."""
    chars: dict[int, int | None] = field(default_factory=dict)
    """By frame, the character spoken in it (None: unknown), until that is told."""

    def deliver(self, frames: int) -> None:
        """The audio of so many more frames has come."""
        self.delivered += frames
        self.needs = None

    def tell(self, place_s: Callable[[int], float | None]) -> tuple[Heard, ...]:
        """What is said in the frames whose sound has gone out since the last call. `place_s`: when a frame is heard in
        the unit's sound, None if it has not gone out."""
        told: list[Heard] = []
        while self.told < self.delivered and (at_s := place_s(self.told)) is not None:
            if (char := self.chars.pop(self.told, None)) is not None:
                told.append(Heard(self.unit, at_s, char))
            self.told += 1
        return tuple(told)

    @property
    def is_complete(self) -> bool:
        return self.end is not None and self.delivered >= self.end

    @property
    def is_submitted(self) -> bool:
        """No more frames will be planned for decode."""
        return self.end is not None or self.submitted == self.max_frames

    @property
    def pending(self) -> int:
        """Frames that the codec could take now."""
        limit = self.submitted if self.end is None else min(self.submitted, self.end)
        return limit - self.vocoded


@dataclass(slots=True)
class Speech:
    """One utterance: its queue, the unit under way, and the listener's clock."""

    utterance: UtteranceId
    sampling: Sampling
    max_lead_s: float
    pauses: PauseLimiter
    speed: float = 1.0
    queue: deque[Speak | Mark] = field(default_factory=deque)
    is_ended: bool = False
    generation: Generation | None = None
    units_begun: int = 0
    asked_s: float | None = None
    """When the first unit was handed over."""
    ordered_s: float | None = None
    """When its prefill was ordered."""
    waiting_since_s: float = 0.0
    """Since when the unit at the head of the queue waits."""
    first_prefill: PrefillResult | None = None
    is_on_slot: bool = False
    """An earlier unit was spoken on the slot that the session holds now, so the next may continue it."""
    codec_runs: bool = False
    """The slot's codec state belongs to this utterance."""
    has_sound: bool = False
    decoded_s: float = -math.inf
    """When its last frame was planned."""
    play_end_s: float = 0.0
    """When the listener will have played everything delivered; falls behind `now` when he waits."""

    @property
    def has_unit_waiting(self) -> bool:
        return self.generation is None and bool(self.queue) and isinstance(self.queue[0], Speak)

    @property
    def has_work(self) -> bool:
        return self.generation is not None or bool(self.queue)

    def lead_s(self, now: float, frame_s: float) -> float:
        """Seconds of sound ahead of playback, frames under way included."""
        delivered = max(0.0, self.play_end_s - now) if self.has_sound else 0.0
        g = self.generation
        return delivered + (0.0 if g is None else (g.submitted - g.delivered) * frame_s / self.speed)

    def heard(self, now: float, audio_s: float) -> None:
        """Sound was delivered: the player starts now, goes on, or starts again after it ran dry.
        `audio_s` is the model's."""
        self.play_end_s = max(self.play_end_s, now) + audio_s / self.speed
        self.has_sound = True


@dataclass(slots=True)
class Session:
    id: SessionId
    voice: Voice
    slot: SlotId | None = None
    speech: Speech | None = None
    is_warm: bool = False
    """The slot holds the voice's prefix (and `Warm` was reported)."""
    warm_asked: bool = False
    idle_since_s: float = 0.0
    queued_since_s: float | None = None
    """Since when it waits for a slot with something to say."""

    @property
    def is_idle(self) -> bool:
        return self.speech is None or not self.speech.has_work
