"""An engine without a model: the audio is a function of who asks. It prices the server alone (`--model null`) and
makes mix-ups visible in tests, where the samples name voice, slot, epoch and frame.

As it is, a prefill and a step take no time, so what a listener waits for is the server. Speech is as long as its text
would take, comes in frames of 53 ms, and ends as a model's does, with a frame past the end; `step_s` and `prefill_s`
make it as slow as a device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from engine.api import (
    Audio,
    Decoded,
    EngineError,
    Epoch,
    Limits,
    Pcm,
    Prefill,
    PrefillResult,
    StepPlan,
    StepResult,
    Voice,
)

__all__ = ["NullEngine", "tone"]

SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 1_280
TONES_HZ = {"low": 300, "high": 700}


def tone(request: Prefill, frame: int) -> Pcm:
    """A sine per voice, continuous over the frames of a unit, at a quarter of full scale."""
    first = frame * FRAME_SAMPLES % SAMPLE_RATE_HZ
    return _sine(TONES_HZ.get(request.voice.name, 440))[first : first + FRAME_SAMPLES]


@cache
def _sine(hz: int) -> Pcm:
    """A second of it and a frame. Whole periods fill a second, so any frame is a piece of this: an engine that prices
    the server must not be dear itself."""
    index = np.arange(SAMPLE_RATE_HZ + FRAME_SAMPLES)
    pcm: Pcm = (8192 * np.sin(2 * math.pi * hz / SAMPLE_RATE_HZ * index)).astype(np.int16)
    pcm.flags.writeable = False
    return pcm


def frames_like_speech(request: Prefill) -> int:
    """As long as the text would take at 15 characters a second."""
    return max(1, round(len(request.text or "") / 15 * SAMPLE_RATE_HZ / FRAME_SAMPLES))


@dataclass(frozen=True, slots=True)
class _Ticket:
    step: int
    plan: StepPlan
    frames: tuple[int, ...]
    due_s: float
    """When the step is over (time.monotonic)."""


@dataclass(slots=True)
class _Slot:
    request: Prefill
    frames: int = 0


@dataclass(slots=True)
class NullEngine:
    """Implements `engine.api.Engine`. The fields are its whole behaviour."""

    slots: int = 64
    frames_of: Callable[[Prefill], int] = frames_like_speech
    pcm_of: Callable[[Prefill, int], Pcm] = tone
    step_s: float = 0.0
    """Time a step takes; 0 returns at once."""
    prefill_s: float = 0.0
    fail_at_step: int | None = None
    steps: list[StepPlan] = field(default_factory=list)
    """The last plans, newest last, for tests that look at what the engine was asked to do."""
    voices: Mapping[str, Voice] = field(
        default_factory=lambda: {
            name: Voice(name, f"A tone of {hz:g} Hz.", np.zeros((1, 0), np.int16)) for name, hz in TONES_HZ.items()
        }
    )
    _state: dict[int, _Slot] = field(default_factory=dict)
    _busy_until_s: float = 0.0

    @property
    def limits(self) -> Limits:
        return Limits(
            slots=self.slots,
            context_tokens=1 << 20,
            sample_rate_hz=SAMPLE_RATE_HZ,
            frame_samples=FRAME_SAMPLES,
            num_codebooks=1,
            max_vocode_frames=8,
            max_pending_frames=64,
            steps_in_flight=2,
        )

    def prefill(self, request: Prefill) -> PrefillResult:
        if self.prefill_s:
            time.sleep(self.prefill_s)
        self._state[request.slot] = _Slot(request)
        tokens = len(request.text or "")
        return PrefillResult(request.slot, request.epoch, tokens, 0, self.prefill_s)

    def encode_reference(self, clip: bytes, transcript: str, name: str) -> Voice:
        return Voice(name, transcript, np.frombuffer(clip[:64].ljust(64, b"\0"), np.int16)[None].copy())

    def fits(self, voice: Voice) -> bool:
        return len(voice.codes) == 1

    def submit(self, plan: StepPlan) -> _Ticket:
        if self.fail_at_step is not None and plan.step >= self.fail_at_step:
            raise EngineError(f"step {plan.step} was told to fail")
        frames = []
        for ref in plan.decode:
            slot = self._slot(ref.slot, ref.epoch)
            frames.append(slot.frames)
            slot.frames += 1
        self.steps.append(plan)
        del self.steps[:-1000]
        # Like a device, it does one step after the other, and does not wait for the host.
        self._busy_until_s = max(self._busy_until_s, time.monotonic()) + self.step_s
        return _Ticket(plan.step, plan, tuple(frames), self._busy_until_s)

    def is_done(self, ticket: _Ticket) -> bool:
        return time.monotonic() >= ticket.due_s

    def collect(self, ticket: _Ticket) -> StepResult:
        if (left_s := ticket.due_s - time.monotonic()) > 0:
            time.sleep(left_s)
        decoded, audio = [], []
        for ref, frame in zip(ticket.plan.decode, ticket.frames, strict=True):
            end = self._frames(ref.slot, ref.epoch)
            decoded.append(Decoded(ref.slot, ref.epoch, frame, ended=end is not None and frame >= end))
        for item in ticket.plan.vocode:
            slot = self._state[item.slot]
            span = range(item.first_frame, item.first_frame + item.frames)
            pcm = np.concatenate([self.pcm_of(slot.request, frame) for frame in span])
            audio.append(Audio(item.slot, item.epoch, item.first_frame, item.frames, pcm))
        return StepResult(ticket.step, tuple(decoded), tuple(audio), (), self.step_s, 0.0)

    def _slot(self, slot: int, epoch: Epoch) -> _Slot:
        state = self._state[slot]
        assert state.request.epoch == epoch, f"slot {slot} holds epoch {state.request.epoch}, plan says {epoch}"
        return state

    def _frames(self, slot: int, epoch: Epoch) -> int | None:
        """How many frames the unit has; None if the slot went on to another one meanwhile."""
        state = self._state[slot]
        return self.frames_of(state.request) if state.request.epoch == epoch else None

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        self._state.clear()
