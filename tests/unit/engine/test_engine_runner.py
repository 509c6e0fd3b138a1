"""The runner's books: what a slot holds, which prefix is whose, what is refused before anything changes."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from engine.api import (
    BadReference,
    EngineError,
    Epoch,
    Prefill,
    PrefillResult,
    Sampling,
    SlotId,
    SlotRef,
    StepPlan,
    Vocode,
    Voice,
)
from engine.backends.base import VocodeRow
from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.load import load_model
from engine.prompt import PromptBuilder
from engine.runner import PREFIX_CACHE_ENTRIES, Runner
from engine.tokenizer import Tokenizer
from engine.voices import read_voices

TEXT = "Hello there."
ENDS_BY_ITSELF = Sampling(seed=3)

STATE_TOLERANCE = 1e-4
"""KV of about 220 positions, summed in another order; the largest difference seen is 2e-6."""


class Rig:
    """A runner over the reference backend, put together by hand, with its parts in reach."""

    def __init__(self, folder: Path, *, slots: int = 1, context_tokens: int = 512) -> None:
        self.model, self.codec = load_model(folder), Codec.load(folder)
        self.backend = ReferenceBackend(self.model, self.codec, slots=slots, context_tokens=context_tokens)
        self.prompts = PromptBuilder(Tokenizer(folder), self.model.config.num_codebooks)
        sizes = self.codec.config.codebook_sizes
        self.runner = self.wrap(self.backend, read_voices(folder, sizes, "ada"))
        self.epoch = 0

    def wrap(self, backend: ReferenceBackend, voices: dict[str, Voice] | object) -> Runner:
        config = self.codec.config
        return Runner(
            backend,
            self.prompts,
            voices,  # type: ignore[arg-type]
            sample_rate_hz=config.sample_rate,
            frame_samples=config.hop_samples,
            codebook_sizes=config.codebook_sizes,
        )

    def prefill(self, text: str | None = TEXT, voice: Voice | str = "ada", **options: object) -> PrefillResult:
        self.epoch += 1
        who = self.runner.voices[voice] if isinstance(voice, str) else voice
        options = {"max_frames": 100 if text else 0} | options
        return self.runner.prefill(Prefill(SlotId(0), Epoch(self.epoch), who, text, **options))  # type: ignore[arg-type]

    def speak_to_the_end(self) -> int:
        """Decode the unit until the model ends it; how many frames it has."""
        ref = SlotRef(SlotId(0), Epoch(self.epoch))
        for frame in range(100):
            plan = StepPlan(frame, (ref,), (Vocode(ref.slot, ref.epoch, frame, 1),))
            if self.runner.collect(self.runner.submit(plan)).decoded[0].ended:
                return frame
        pytest.fail("this seed was chosen because its units end by themselves")


@pytest.fixture
def rig(tiny: Path) -> Rig:
    return Rig(tiny)


def test_a_continued_slot_holds_what_prefilling_the_whole_conversation_gives(tiny: Path) -> None:
    rig = Rig(tiny, slots=2)
    rig.prefill(sampling=ENDS_BY_ITSELF)
    frames = rig.speak_to_the_end()
    spoken = np.stack([codes.numpy() for codes in rig.backend._slots[0].codes], axis=1)
    assert spoken.shape[1] == frames > 0
    result = rig.prefill("And another.", continues=True)

    ada, prompts = rig.runner.voices["ada"], rig.prompts
    speech = np.concatenate([spoken[:1] + rig.model.semantic_begin, spoken]).astype(np.int32)
    whole = np.concatenate([prompts.prefix(ada), prompts.turn(TEXT), speech, prompts.next_turn("And another.")], axis=1)
    assert result.prompt_tokens == whole.shape[1]
    assert result.prompt_tokens - result.cached_tokens == prompts.next_turn("And another.").shape[1]
    tokens = whole.shape[1] - 1
    rig.backend.prefill(1, whole[:, :-1], 0)
    continued, fresh = (rig.backend.save_prefix(slot, tokens) for slot in (0, 1))
    assert float((continued.k - fresh.k).abs().max()) < STATE_TOLERANCE
    assert float((continued.v - fresh.v).abs().max()) < STATE_TOLERANCE


def test_history_that_no_longer_fits_is_dropped_and_the_unit_still_spoken(tiny: Path) -> None:
    first = Rig(tiny).prefill().prompt_tokens
    rig = Rig(tiny, context_tokens=first + 100)
    rig.prefill(sampling=ENDS_BY_ITSELF)
    rig.speak_to_the_end()
    assert rig.prefill(continues=True).prompt_tokens == first


def test_only_an_ended_unit_of_the_same_voice_is_continued(rig: Rig) -> None:
    fresh = rig.prefill(sampling=ENDS_BY_ITSELF).prompt_tokens
    assert rig.prefill(continues=True).prompt_tokens == fresh, "the unit before was cut off"
    rig.prefill(sampling=ENDS_BY_ITSELF)
    rig.speak_to_the_end()
    other = rig.prefill(voice="bob", continues=True)
    assert other.prompt_tokens == rig.prefill(voice="bob").prompt_tokens


def test_voices_that_share_their_first_codebook_do_not_share_a_prefix(rig: Rig) -> None:
    """KV depends on all codebooks, so the cache's key must."""
    ada = rig.runner.voices["ada"]
    codes = ada.codes.copy()
    codes[-1, 0] ^= 1
    twin = Voice("twin", ada.transcript, codes)
    rig.prefill(None)
    assert rig.prefill(None, voice=twin).cached_tokens == 0
    assert rig.prefill(None).cached_tokens > 0


def test_the_prefix_cache_is_bounded_and_forgets_the_voice_unused_longest(rig: Rig) -> None:
    codes = rig.runner.voices["ada"].codes[:, :2]
    voices = [Voice(f"v{i}", f"I am {i}.", codes) for i in range(PREFIX_CACHE_ENTRIES + 1)]
    for voice in voices[:-1]:
        assert rig.prefill(None, voice=voice).cached_tokens == 0
    assert rig.prefill(None, voice=voices[0]).cached_tokens > 0
    rig.prefill(None, voice=voices[-1])
    assert len(rig.runner._prefixes) == PREFIX_CACHE_ENTRIES
    assert rig.prefill(None, voice=voices[0]).cached_tokens > 0
    assert rig.prefill(None, voice=voices[1]).cached_tokens == 0


def test_a_cached_prefix_stays_the_same_to_the_bit_however_it_is_used(rig: Rig) -> None:
    rig.prefill(None)
    _, prefix = next(iter(rig.runner._prefixes.values()))
    before = prefix.k.clone(), prefix.v.clone()
    for _ in range(3):
        rig.prefill(sampling=ENDS_BY_ITSELF)
        rig.speak_to_the_end()
        rig.prefill(voice="bob", continues=True)
        rig.backend._kv.k.fill_(7.0)  # as a model would that writes where it should not
        assert rig.prefill(None).cached_tokens > 0
    assert torch.equal(prefix.k, before[0])
    assert torch.equal(prefix.v, before[1])


# ---- reference clips -----------------------------------------------------------------------------------


def clip(seconds: float, rate_hz: int = 8_000) -> bytes:
    file = io.BytesIO()
    tone = 0.3 * np.sin(2 * np.pi * 220 / rate_hz * np.arange(int(seconds * rate_hz)))
    soundfile.write(file, tone, rate_hz, format="WAV")
    return file.getvalue()


def test_a_clip_becomes_a_voice_that_speaks(rig: Rig) -> None:
    voice = rig.runner.encode_reference(clip(1.5, 16_000), "La la.", "singer")
    frames = -(-int(1.5 * 8_000) // rig.runner.limits.frame_samples)
    assert voice.codes.shape == (rig.runner.limits.num_codebooks, frames)
    assert not voice.codes.flags.writeable
    assert rig.prefill(voice=voice).prompt_tokens > frames


@pytest.mark.parametrize(
    ("data", "transcript", "name", "message"),
    [
        (clip(1.5), "x" * 5_000, "a", "5000 characters; at most 1000"),
        (clip(1.5), "La.", "../a", "voice name"),
        (clip(0.4), "La.", "a", "at least 1 s"),
        (clip(31), "La.", "a", "longer than 30 s"),
        (b"", "La.", "a", "empty"),
        (b"/etc/hostname", "La.", "a", "not readable"),
    ],
)
def test_a_clip_that_cannot_be_used_is_refused_with_the_reason(
    rig: Rig, data: bytes, transcript: str, name: str, message: str
) -> None:
    with pytest.raises(BadReference, match=message):
        rig.runner.encode_reference(data, transcript, name)


def test_a_clip_without_a_transcript_is_a_voice_by_its_sound_alone(rig: Rig) -> None:
    voice = rig.runner.encode_reference(clip(1.5), " \n", "a")
    assert voice.transcript == ""
    assert np.array_equal(voice.codes, rig.runner.encode_reference(clip(1.5), "La.", "a").codes)


def test_a_voice_fits_where_its_codes_lie_within_the_codebooks(rig: Rig) -> None:
    voice = rig.runner.encode_reference(clip(1.5), "La.", "a")
    assert rig.runner.fits(voice)
    for codes in (voice.codes[:-1], voice.codes + np.int16(20_000), voice.codes - np.int16(20_000)):
        assert not rig.runner.fits(Voice("a", "La.", codes))


# ---- failures and threads ------------------------------------------------------------------------------


class BrokenBackend(ReferenceBackend):
    def submit(self, decode: list[int], vocode: list[VocodeRow]) -> object:  # type: ignore[override]
        raise RuntimeError("the device fell off")


def test_a_backend_that_fails_is_an_engine_error_that_names_the_step(tiny: Path, rig: Rig) -> None:
    runner = rig.wrap(BrokenBackend(rig.model, rig.codec, slots=1, context_tokens=512), rig.runner.voices)
    runner.prefill(Prefill(SlotId(0), Epoch(1), runner.voices["ada"], TEXT, max_frames=1))
    with pytest.raises(EngineError, match="step 77 could not be started: the device fell off"):
        runner.submit(StepPlan(77, (SlotRef(SlotId(0), Epoch(1)),)))


def test_every_thread_runs_in_inference_mode(rig: Rig) -> None:
    """A path without it keeps an autograd graph per call, and memory climbs with every request."""
    seen: dict[str, bool] = {}
    for part, module in (
        ("slow", rig.model.norm),
        ("fast", rig.model.fast_norm),
        ("decoder", rig.codec._model.decoder.model[0]),
        ("encoder", rig.codec._model.encoder.block[0]),
    ):
        module.register_forward_pre_hook(
            lambda *_, part=part: seen.update({part: seen.get(part, True) and torch.is_inference_mode_enabled()})
        )
    ref = SlotRef(SlotId(0), Epoch(1))
    ada = rig.runner.voices["ada"]
    tasks: list[Callable[[], object]] = [
        lambda: rig.runner.prefill(Prefill(ref.slot, ref.epoch, ada, TEXT, max_frames=2)),
        lambda: rig.runner.submit(StepPlan(1, (ref,), (Vocode(ref.slot, ref.epoch, 0, 1, True),))),
        lambda: rig.runner.encode_reference(clip(1.2), "La.", "singer"),
    ]
    for task in tasks:
        thread = threading.Thread(target=task)
        thread.start()
        thread.join(30)
    assert seen == {"slow": True, "fast": True, "decoder": True, "encoder": True}
    assert not any(p.requires_grad for p in rig.model.parameters())
    assert rig.backend._kv.k.grad_fn is None
