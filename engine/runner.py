"""The engine over a backend: prompts, the voice-prefix cache, and the books on what each slot holds.

It owns everything that can be known on the host; the backend owns the device. It knows no sessions and no pacing:
the plans say what to do, and a plan that breaks the rules is a fault of the caller, found here.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.api import (
    Audio,
    BadReference,
    Decoded,
    EngineError,
    Epoch,
    Fault,
    Limits,
    Prefill,
    PrefillResult,
    PromptTooLong,
    SlotId,
    SlotRef,
    StepPlan,
    StepResult,
    Vocode,
    Voice,
)
from engine.backends.base import Backend, BackendResult, Columns, VocodeRow
from engine.prompt import PromptBuilder
from engine.voices import VoiceError, make_voice

__all__ = ["MAX_HISTORY_TURNS", "Runner", "StepTicket"]

MAX_HISTORY_TURNS = 2
"""Earlier units kept as context. The bundled voice was trained on one to three turns."""

PREFIX_CACHE_ENTRIES = 32

_WARM_EPOCH = Epoch(-1)


@dataclass(slots=True)
class _SlotBook:
    """What the host knows of one slot. `tokens` counts KV positions that stay valid when decode stops."""

    epoch: int = -1
    voice_key: tuple[str, bytes] | None = None
    prefix_tokens: int = 0
    tokens: int = 0
    turns: int = 0
    prompt_tokens: int = 0
    """KV length when the current unit was armed."""
    max_frames: int = 0
    """Frames the current unit may have; 0 in a slot that is only warm."""
    submitted_frames: int = 0
    vocoded_frames: int = 0
    ended: bool = False
    chars: list[int] = field(default_factory=list)
    """For each token of the current unit's text, the character it begins in."""


@dataclass(frozen=True, slots=True)
class StepTicket:
    step: int
    plan: StepPlan
    frames: tuple[int, ...]
    """For each decode row, the index of the frame it makes."""
    device: Any


class Runner:
    """Implements `engine.api.Engine`."""

    def __init__(
        self,
        backend: Backend,
        prompts: PromptBuilder,
        voices: Mapping[str, Voice],
        *,
        sample_rate_hz: int,
        frame_samples: int,
        codebook_sizes: tuple[int, ...],
        is_latin_only: bool = False,
    ) -> None:
        self._backend = backend
        self._prompts = prompts
        self._codebook_sizes = codebook_sizes
        self._books = [_SlotBook() for _ in range(backend.slots)]
        self._prefixes: OrderedDict[tuple[str, bytes], tuple[int, Any]] = OrderedDict()
        self.voices = voices
        self.limits = Limits(
            slots=backend.slots,
            context_tokens=backend.context_tokens,
            sample_rate_hz=sample_rate_hz,
            frame_samples=frame_samples,
            num_codebooks=len(codebook_sizes),
            max_vocode_frames=backend.max_vocode_frames,
            max_pending_frames=backend.max_pending_frames,
            steps_in_flight=backend.steps_in_flight,
            is_latin_only=is_latin_only,
        )

    # ---- prefill thread ------------------------------------------------------------------------

    def prefill(self, request: Prefill) -> PrefillResult:
        """Warm the slot, or arm it for a unit. Raises PromptTooLong before any state changes."""
        began = time.perf_counter()
        book = self._books[request.slot]
        prefix = self._prompts.prefix(request.voice)
        columns, keep = self._plan_prompt(request, book, prefix)
        computed = columns.shape[1]
        if keep == 0:
            computed += self._write_prefix(request, book, prefix)
            keep = prefix.shape[1]
        book.epoch, book.ended = request.epoch, False
        book.max_frames = book.submitted_frames = book.vocoded_frames = 0
        if keep == book.prefix_tokens:
            book.turns = 0
        if request.text is not None:
            self._backend.prefill(request.slot, columns[:, :-1], keep)
            book.tokens = book.prompt_tokens = keep + columns.shape[1] - 1
            book.turns += 1
            book.max_frames = request.max_frames
            book.chars = self._prompts.char_starts(request.text)
            first = keep + columns.shape[1] - self._prompts.tokens_after_text - len(book.chars)
            text = range(first, first + len(book.chars))
            self._backend.arm(request.slot, columns[:, -1], book.tokens, request.sampling, text)
        total = keep + columns.shape[1]
        return PrefillResult(request.slot, request.epoch, total, total - computed, time.perf_counter() - began)

    def _plan_prompt(self, request: Prefill, book: _SlotBook, prefix: Columns) -> tuple[Columns, int]:
        """(columns to add, KV positions to keep); keep 0 means the prefix must be put there first."""
        same_voice = book.voice_key == request.voice.key
        if request.text is None:
            self._check_fit(prefix.shape[1], 0)
            return prefix[:, :0], 0
        if request.continues and same_voice and book.ended and book.turns <= MAX_HISTORY_TURNS:
            columns = self._prompts.next_turn(request.text)
            if book.tokens + columns.shape[1] + request.max_frames <= self._backend.context_tokens:
                return columns, book.tokens
        columns = self._prompts.turn(request.text)
        self._check_fit(prefix.shape[1] + columns.shape[1], request.max_frames)
        return columns, book.prefix_tokens if same_voice else 0

    def _check_fit(self, prompt_tokens: int, max_frames: int) -> None:
        if prompt_tokens + max_frames > self._backend.context_tokens:
            raise PromptTooLong(
                f"the prompt has {prompt_tokens} tokens and may need {max_frames} frames, "
                f"but a slot holds {self._backend.context_tokens}"
            )

    def _write_prefix(self, request: Prefill, book: _SlotBook, prefix: Columns) -> int:
        """Put the voice's prefix into the slot, from the cache if it is there; returns tokens computed."""
        key, tokens = request.voice.key, prefix.shape[1]
        cached = self._prefixes.get(key)
        if cached is not None:
            self._prefixes.move_to_end(key)
            self._backend.load_prefix(request.slot, cached[1])
        else:
            self._backend.prefill(request.slot, prefix, 0)
            self._prefixes[key] = (tokens, self._backend.save_prefix(request.slot, tokens))
            if len(self._prefixes) > PREFIX_CACHE_ENTRIES:
                self._prefixes.popitem(last=False)
        book.voice_key, book.prefix_tokens = key, tokens
        book.tokens, book.turns = tokens, 0
        return 0 if cached else tokens

    def encode_reference(self, clip: bytes, transcript: str, name: str) -> Voice:
        """Any common audio file -> a voice; an empty transcript leaves the sound alone. Raises BadReference."""
        # Only cloning needs the audio-file libraries: a bare GPU image runs the engine without them.
        from engine.codec.audio_file import decode_clip
        from engine.codec.level import level_speech

        rate_hz = self.limits.sample_rate_hz
        pcm = level_speech(decode_clip(clip, rate_hz), rate_hz)
        try:
            return make_voice(name, transcript, self._backend.encode(pcm), self._codebook_sizes)
        except VoiceError as error:
            raise BadReference(str(error)) from None

    def fits(self, voice: Voice) -> bool:
        try:
            make_voice(voice.name, voice.transcript, voice.codes, self._codebook_sizes)
        except VoiceError:
            return False
        return True

    # ---- decode thread -------------------------------------------------------------------------

    def submit(self, plan: StepPlan) -> StepTicket:
        """Start a step. The plan's rules are checked here; breaking them is a bug of the caller."""
        frames = []
        for ref in plan.decode:
            book = self._books[ref.slot]
            assert book.epoch == ref.epoch, f"slot {ref.slot} holds epoch {book.epoch}, plan says {ref.epoch}"
            pending = book.submitted_frames + 1 - book.vocoded_frames
            # The prompt was checked to fit with so many frames; one more could lie outside the slot's KV.
            assert book.submitted_frames < book.max_frames, f"slot {ref.slot} was asked for {book.max_frames} frames"
            assert pending <= self.limits.max_pending_frames, f"slot {ref.slot} has {pending} frames pending"
            frames.append(book.submitted_frames)
            book.submitted_frames += 1
        rows = [self._vocode_row(item) for item in plan.vocode]
        try:
            device = self._backend.submit([ref.slot for ref in plan.decode], rows)
        except Exception as error:
            raise EngineError(f"step {plan.step} could not be started: {error}") from error
        return StepTicket(plan.step, plan, tuple(frames), device)

    def _vocode_row(self, item: Vocode) -> VocodeRow:
        book = self._books[item.slot]
        assert book.epoch == item.epoch, f"slot {item.slot} holds epoch {book.epoch}, plan says {item.epoch}"
        assert item.first_frame == book.vocoded_frames, f"slot {item.slot}: frames are vocoded in order, each once"
        assert 1 <= item.frames <= self.limits.max_vocode_frames
        book.vocoded_frames += item.frames
        assert book.vocoded_frames <= book.submitted_frames, f"slot {item.slot}: frame not decoded yet"
        return VocodeRow(item.slot, item.first_frame, item.frames, item.reset)

    def is_done(self, ticket: StepTicket) -> bool:
        """Whether `collect` would not wait."""
        return self._backend.is_done(ticket.device)

    def collect(self, ticket: StepTicket) -> StepResult:
        """Wait for a step. Raises EngineError."""
        try:
            result = self._backend.collect(ticket.device)
        except Exception as error:
            raise EngineError(f"step {ticket.step} failed: {error}") from error
        decoded, faults = [], []
        for row, (ref, frame, ended) in enumerate(zip(ticket.plan.decode, ticket.frames, result.ended, strict=True)):
            book = self._books[ref.slot]
            if row in result.bad_rows:
                book.voice_key = None  # nothing the slot holds is to be trusted: start again from the voice
                faults.append(Fault(ref.slot, ref.epoch, "the model's output is not finite"))
                continue
            decoded.append(Decoded(ref.slot, ref.epoch, frame, ended, self._char(book, ref, result, row)))
            if ended and book.epoch == ref.epoch and not book.ended:
                # The step that said "end" was fed the last real frame, so its KV is there too.
                book.ended, book.tokens = True, book.prompt_tokens + frame + 1
        audio = tuple(
            Audio(item.slot, item.epoch, item.first_frame, item.frames, pcm)
            for item, pcm in zip(ticket.plan.vocode, result.pcm, strict=True)
        )
        return StepResult(ticket.step, tuple(decoded), audio, tuple(faults), result.decode_s, result.vocode_s)

    @staticmethod
    def _char(book: _SlotBook, ref: SlotRef, result: BackendResult, row: int) -> int | None:
        """The character spoken in this row's frame, if the backend knows and the unit is still the slot's."""
        if not result.heard or result.heard[row] < 0 or book.epoch != ref.epoch:
            return None
        return book.chars[result.heard[row]]

    # ---- life ------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Prefill every stored voice (the cache is then hot) and speak a frame on each slot."""
        for voice in list(self.voices.values())[:PREFIX_CACHE_ENTRIES]:
            self.prefill(Prefill(SlotId(0), _WARM_EPOCH, voice))
        default = next(iter(self.voices.values()))
        for slot in range(self.limits.slots):
            self.prefill(Prefill(SlotId(slot), _WARM_EPOCH, default, "Hello.", max_frames=4))
        refs = tuple(SlotRef(SlotId(slot), _WARM_EPOCH) for slot in range(self.limits.slots))
        vocode = tuple(Vocode(ref.slot, ref.epoch, 0, 1, reset=True) for ref in refs)
        self.collect(self.submit(StepPlan(0, refs, vocode)))
        for book in self._books:
            book.epoch, book.ended, book.turns = -1, False, 0

    def close(self) -> None:
        self._backend.close()
