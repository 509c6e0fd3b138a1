"""What every backend must do, on the tiny model. The reference backend is the specification; others agree with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.api import Epoch, Pcm, Prefill, PromptTooLong, Sampling, SlotId, SlotRef, StepPlan, Vocode
from engine.load import load_engine
from engine.runner import Runner
from engine.tokenizer import Tokenizer
from tests.tiny_model import CONFIG, CUDA_CODEC, CUDA_CONFIG, write_tiny_model
from tests.unit.csrc.emulated import load_emulated

CPU_BACKENDS = ("reference", "native")
BACKENDS = (*CPU_BACKENDS, "cuda")
SLOTS = 3
TEXT = "Hello there, this is a test."

# The fast backends sum in another order; a sample may round to a neighbouring int16.
PCM_TOLERANCE = 2


# The emulation takes a minute for what the device does in two.
EMULATED = [] if torch.cuda.is_available() else [pytest.mark.slow]


@pytest.fixture(params=[*CPU_BACKENDS, pytest.param("cuda", marks=EMULATED)])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make_engine(folder: Path, backend: str, slots: int) -> Runner:
    """The CUDA backend runs on the device where there is one, else its kernels run in the CPU emulation."""
    if backend != "cuda":
        return load_engine(folder, backend=backend, slots=slots)
    if not torch.cuda.is_available():
        return load_emulated(folder, slots=slots)
    with torch.device("cpu"):
        return load_engine(folder, device="cuda", precision="bf16", slots=slots)


def write_model(folder: Path, backend: str) -> Path:
    if backend == "cuda":
        return write_tiny_model(folder, config=CUDA_CONFIG, codec=CUDA_CODEC)
    return write_tiny_model(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("contract")
    return {backend: write_model(home / backend, backend) for backend in BACKENDS}


@pytest.fixture
def engine(backend: str, models: dict[str, Path]) -> Iterator[Runner]:
    made = make_engine(models[backend], backend, SLOTS)
    yield made
    made.close()


class Speaker:
    """Drives an engine step by step, several slots at once."""

    def __init__(self, engine: Runner) -> None:
        self.engine = engine
        self.step = 0
        self.epoch = 0

    def prefill(
        self, slot: int, text: str = TEXT, voice: str = "ada", *, frames: int = 40, **options: object
    ) -> SlotRef:
        self.epoch += 1
        request = Prefill(
            SlotId(slot), Epoch(self.epoch), self.engine.voices[voice], text, max_frames=frames, **options
        )
        self.engine.prefill(request)
        return SlotRef(SlotId(slot), Epoch(self.epoch))

    def speak(self, refs: list[SlotRef], frames: int, *, width: int = 1, reset: bool = True) -> list[Pcm]:
        """Decode up to `frames` frames of every slot together; PCM per slot up to its end."""
        sound: dict[SlotRef, list[Pcm]] = {ref: [] for ref in refs}
        ends: dict[SlotRef, int] = {}
        done = dict.fromkeys(refs, 0)
        for frame in range(frames):
            live = [ref for ref in refs if ref not in ends]
            vocode = []
            for ref in live:
                pending = frame + 1 - done[ref]
                if pending == width or frame == frames - 1:
                    first = done[ref] == 0
                    vocode.append(Vocode(ref.slot, ref.epoch, done[ref], pending, reset and first))
                    done[ref] += pending
            self.step += 1
            result = self.engine.collect(self.engine.submit(StepPlan(self.step, tuple(live), tuple(vocode))))
            for decoded in result.decoded:
                if decoded.ended:
                    ends[SlotRef(decoded.slot, decoded.epoch)] = decoded.frame
            for audio in result.audio:
                sound[SlotRef(audio.slot, audio.epoch)].append(audio.pcm)
        for ref in refs:  # what a unit's early end left behind
            while (left := ends.get(ref, frames) - done[ref]) > 0:
                item = Vocode(ref.slot, ref.epoch, done[ref], min(left, width), reset and done[ref] == 0)
                done[ref] += item.frames
                self.step += 1
                (audio,) = self.engine.collect(self.engine.submit(StepPlan(self.step, (), (item,)))).audio
                sound[ref].append(audio.pcm)
        hop = self.engine.limits.frame_samples
        whole = {ref: np.concatenate(parts) if parts else np.zeros(0, np.int16) for ref, parts in sound.items()}
        return [whole[ref][: ends.get(ref, frames) * hop] for ref in refs]


def test_the_same_seed_gives_the_same_sound_and_another_seed_another(engine: Runner) -> None:
    speaker = Speaker(engine)
    first, again, other = (
        speaker.speak([speaker.prefill(0, sampling=Sampling(seed=seed))], 12)[0] for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_batch_mates_never_change_a_stream(engine: Runner) -> None:
    speaker = Speaker(engine)
    alone = speaker.speak([speaker.prefill(0, sampling=Sampling(seed=5))], 12)[0]
    refs = [
        speaker.prefill(1, "Something else entirely.", "bob", sampling=Sampling(1.5, 0.95, 30, 9)),
        speaker.prefill(2, sampling=Sampling(seed=5)),
        speaker.prefill(0, "And a third one!", sampling=Sampling(seed=3)),
    ]
    together = speaker.speak(refs, 12)[1]
    assert np.array_equal(alone, together)


def test_a_reused_slot_equals_a_fresh_one(engine: Runner) -> None:
    speaker = Speaker(engine)
    fresh = speaker.speak([speaker.prefill(1, sampling=Sampling(seed=4))], 10)[0]
    speaker.speak([speaker.prefill(1, "Fill the slot with something quite long.", "bob")], 20)
    reused = speaker.speak([speaker.prefill(1, sampling=Sampling(seed=4))], 10)[0]
    assert np.array_equal(fresh, reused)


def test_how_frames_are_grouped_for_the_codec_does_not_change_the_sound(engine: Runner) -> None:
    speaker = Speaker(engine)
    by_width = [speaker.speak([speaker.prefill(0, sampling=Sampling(seed=6))], 12, width=w)[0] for w in (1, 2, 4)]
    for pcm in by_width[1:]:
        assert len(pcm) == len(by_width[0])
        assert int(np.abs(pcm.astype(int) - by_width[0]).max()) <= PCM_TOLERANCE


def test_a_warm_slot_speaks_like_a_cold_one_and_costs_only_the_texts_tokens(engine: Runner) -> None:
    speaker = Speaker(engine)
    ada = engine.voices["ada"]
    cold = engine.prefill(Prefill(SlotId(0), Epoch(100), ada, TEXT, max_frames=20))
    assert cold.cached_tokens == 0
    warm = engine.prefill(Prefill(SlotId(1), Epoch(101), ada))
    assert warm.cached_tokens == warm.prompt_tokens
    text_only = engine.prefill(Prefill(SlotId(1), Epoch(102), ada, TEXT, max_frames=20))
    assert text_only.prompt_tokens == cold.prompt_tokens
    assert text_only.prompt_tokens - text_only.cached_tokens == len(TEXT) + len("\x02\n\x01assistant\n\x04")
    sounds = [speaker.speak([SlotRef(SlotId(s), Epoch(e))], 10)[0] for s, e in ((0, 100), (1, 102))]
    assert np.array_equal(*sounds)


def test_a_cached_voice_is_not_changed_by_those_who_use_it(engine: Runner) -> None:
    speaker = Speaker(engine)
    first = speaker.speak([speaker.prefill(0, sampling=Sampling(seed=1))], 8)[0]
    for slot in (0, 1, 2, 0):
        speaker.speak([speaker.prefill(slot, "Noise in between.", sampling=Sampling(seed=slot))], 8)
    assert np.array_equal(speaker.speak([speaker.prefill(2, sampling=Sampling(seed=1))], 8)[0], first)


def test_a_continued_unit_keeps_the_turns_before_it_as_context(tiny: Path) -> None:
    # The end token is made likely, so that units end by themselves and may be continued.
    engine = load_engine(tiny, backend="reference", slots=1)
    speaker = Speaker(engine)
    tokens = []
    for number in range(5):
        speaker.epoch += 1
        request = Prefill(
            SlotId(0), Epoch(speaker.epoch), engine.voices["ada"], TEXT, number > 0, Sampling(seed=3), max_frames=100
        )
        tokens.append(engine.prefill(request).prompt_tokens)
        speaker.speak([SlotRef(SlotId(0), Epoch(speaker.epoch))], 100)
        if not engine._books[0].ended:
            pytest.fail("this seed was chosen because its units end by themselves")
    assert tokens[0] < tokens[1] < tokens[2]
    assert tokens[3] == tokens[0], "after two turns of history the context starts again from the voice"


def test_a_prompt_that_cannot_fit_is_refused_with_numbers_and_nothing_is_harmed(engine: Runner) -> None:
    speaker = Speaker(engine)
    before = speaker.prefill(0, sampling=Sampling(seed=2))
    too_long = "x" * engine.limits.context_tokens
    with pytest.raises(PromptTooLong, match=str(engine.limits.context_tokens)):
        engine.prefill(Prefill(SlotId(0), Epoch(999), engine.voices["ada"], too_long, max_frames=1))
    spoken = speaker.speak([before], 6)[0]
    assert np.array_equal(spoken, speaker.speak([speaker.prefill(1, sampling=Sampling(seed=2))], 6)[0])


def test_frames_past_the_end_of_a_unit_are_silent_and_leave_no_trace(engine: Runner) -> None:
    """A plan may name a frame before it is known that the unit ended there: the step pipeline depends on it."""
    speaker = Speaker(engine)
    sampling = Sampling(seed=3)
    ref = speaker.prefill(0, sampling=sampling, frames=100)
    clean = speaker.speak([ref], 100)[0]
    end = len(clean) // engine.limits.frame_samples
    assert 0 < end < 95, "this seed was chosen because its unit ends by itself"

    ref = speaker.prefill(1, sampling=sampling, frames=100)
    hop, sound = engine.limits.frame_samples, []
    for frame in range(end + 2):
        plan = StepPlan(1000 + frame, (ref,), (Vocode(ref.slot, ref.epoch, frame, 1, frame == 0),))
        sound.append(engine.collect(engine.submit(plan)).audio[0].pcm)
    assert not np.concatenate(sound[end:]).any()
    follow = speaker.prefill(1, sampling=Sampling(seed=8))
    after_overrun = speaker.speak([follow], 4, reset=False)[0]

    ref = speaker.prefill(2, sampling=sampling, frames=100)
    for frame in range(end):
        plan = StepPlan(2000 + frame, (ref,), (Vocode(ref.slot, ref.epoch, frame, 1, frame == 0),))
        engine.collect(engine.submit(plan))
    follow = speaker.prefill(2, sampling=Sampling(seed=8))
    assert np.array_equal(after_overrun, speaker.speak([follow], 4, reset=False)[0])
    assert len(sound[0]) == hop


def test_a_slot_that_ended_makes_no_more_frames(engine: Runner) -> None:
    """It used to draw on: the column stayed and the position moved, so a later step could find a semantic token,
    and a codec row planned before the end was known put that bogus frame into the stream."""
    ended_units = 0
    for seed in range(12):
        speaker = Speaker(engine)
        ref = speaker.prefill(0, sampling=Sampling(seed=seed), frames=70)
        ends: list[bool] = []
        while len(ends) < 64 and sum(ends) < 4:
            frame = len(ends)
            plan = StepPlan(frame, (ref,), (Vocode(ref.slot, ref.epoch, frame, 1, frame == 0),))
            result = engine.collect(engine.submit(plan))
            ends.append(result.decoded[0].ended)
            assert not (ends[-1] and result.audio[0].pcm.any())
        assert ends == sorted(ends), "no frame follows the end"
        ended_units += any(ends)
    assert ended_units >= 4, "enough of these seeds were chosen to end by themselves"


def test_a_row_that_is_not_finite_faults_alone_and_its_slot_can_be_used_again(
    request: pytest.FixtureRequest, tmp_path: Path, backend: str
) -> None:
    """One byte's embedding is NaN: whoever says "~" poisons its own logits and KV."""
    folder = write_model(tmp_path / "poisoned", backend)
    tensors = load_file(folder / "model.safetensors")
    (poison,) = Tokenizer(folder).encode("~")
    tensors["embeddings.weight"][poison] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    engine = make_engine(folder, backend, 2)
    request.addfinalizer(engine.close)

    speaker = Speaker(engine)
    alone = speaker.speak([speaker.prefill(1, sampling=Sampling(seed=5))], 6)[0]
    fresh = speaker.speak([speaker.prefill(0, sampling=Sampling(seed=6))], 6)[0]
    bad, good = speaker.prefill(0, "Oh ~ no."), speaker.prefill(1, sampling=Sampling(seed=5))
    sound = []
    for frame in range(6):
        vocode = tuple(Vocode(ref.slot, ref.epoch, frame, 1, frame == 0) for ref in (bad, good))
        result = engine.collect(
            engine.submit(StepPlan(frame, (bad, good) if frame == 0 else (good,), vocode[frame > 0 :]))
        )
        assert [fault.epoch for fault in result.faults] == ([bad.epoch] if frame == 0 else [])
        assert [decoded.epoch for decoded in result.decoded] == [good.epoch]
        sound.append(result.audio[-1].pcm)
        assert all(not audio.pcm.any() for audio in result.audio if audio.epoch == bad.epoch)
    assert np.array_equal(np.concatenate(sound), alone)
    assert np.array_equal(speaker.speak([speaker.prefill(0, sampling=Sampling(seed=6))], 6)[0], fresh)


def test_residual_logits_that_are_not_finite_are_a_fault_too(tmp_path: Path, backend: str) -> None:
    folder = write_model(tmp_path / "poisoned", backend)
    tensors = load_file(folder / "model.safetensors")
    tensors["fast_layers.1.feed_forward.w2.weight"][3, 5] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    engine = make_engine(folder, backend, 2)
    speaker = Speaker(engine)
    refs = (speaker.prefill(0), speaker.prefill(1))
    vocode = tuple(Vocode(ref.slot, ref.epoch, 0, 1, True) for ref in refs)
    result = engine.collect(engine.submit(StepPlan(1, refs, vocode)))
    engine.close()
    assert [fault.slot for fault in result.faults] == [0, 1]
    assert not result.decoded
    assert not any(audio.pcm.any() for audio in result.audio)


def test_a_prompt_that_fills_the_slot_to_the_last_position_speaks_and_one_more_is_refused(engine: Runner) -> None:
    """Prompts of limit - 1, limit, limit + 1 and 4 x limit, with a neighbour that must not notice."""
    context, frames, ada = engine.limits.context_tokens, 8, engine.voices["ada"]
    speaker = Speaker(engine)
    shortest = engine.prefill(Prefill(SlotId(0), Epoch(500), ada, "x", max_frames=1)).prompt_tokens - 1
    alone = speaker.speak([speaker.prefill(1, sampling=Sampling(seed=5))], frames)[0]
    for characters in (context - frames - shortest - 1, context - frames - shortest):
        full = speaker.prefill(0, "x" * characters, frames=frames)
        neighbour = speaker.prefill(1, sampling=Sampling(seed=5))
        assert np.array_equal(speaker.speak([full, neighbour], frames)[1], alone)
    for characters in (context - frames - shortest + 1, 4 * context):
        needed = shortest + characters
        with pytest.raises(PromptTooLong, match=rf"{needed} tokens .* {frames} frames.* {context}"):
            speaker.prefill(0, "x" * characters, frames=frames)


def test_frames_past_the_number_asked_for_are_never_submitted(engine: Runner) -> None:
    """The prompt was checked to fit with that number: one more could lie outside the slot's memory."""
    speaker = Speaker(engine)
    ref = speaker.prefill(0, frames=2)
    speaker.speak([ref], 2)
    with pytest.raises(AssertionError, match="asked for 2 frames"):
        engine.submit(StepPlan(9, (ref,)))
    warm = engine.prefill(Prefill(SlotId(0), Epoch(600), engine.voices["ada"]))
    with pytest.raises(AssertionError, match="asked for 0 frames"):
        engine.submit(StepPlan(10, (SlotRef(warm.slot, warm.epoch),)))


@pytest.mark.parametrize(
    ("decode", "vocode", "message"),
    [
        ((7,), (), "epoch"),
        ((1,), ((7, 0, 1),), "epoch"),
        ((1,), ((1, 1, 1),), "in order"),
        ((1,), ((1, 0, 2),), "not decoded yet"),
    ],
)
def test_a_plan_that_breaks_the_rules_is_a_bug_found_at_the_boundary(
    engine: Runner, decode: tuple[int, ...], vocode: tuple[tuple[int, int, int], ...], message: str
) -> None:
    engine.prefill(Prefill(SlotId(0), Epoch(1), engine.voices["ada"], TEXT, max_frames=5))
    plan = StepPlan(
        1,
        tuple(SlotRef(SlotId(0), Epoch(epoch)) for epoch in decode),
        tuple(Vocode(SlotId(0), Epoch(epoch), first, frames) for epoch, first, frames in vocode),
    )
    with pytest.raises(AssertionError, match=message):
        engine.submit(plan)


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        (None, {"norm_fastlayer_input": False, "scale_codebook_embeddings": False, "rope_table_bf16": False}),
        ("text_config", {"tie_word_embeddings": False, "attention_qk_norm": False, "n_local_heads": -1}),
        ("audio_decoder_config", {"dim": 48, "attention_qk_norm": True, "n_local_heads": 2}),
    ],
)
def test_native_equals_reference_in_every_form_of_the_family(
    tmp_path: Path, section: str | None, changes: dict[str, object]
) -> None:
    config = copy.deepcopy(CONFIG)
    (config if section is None else config[section]).update(changes)
    folder = write_tiny_model(tmp_path / "variant", config=config)
    sounds = []
    for name in CPU_BACKENDS:
        engine = load_engine(folder, backend=name, slots=1)
        speaker = Speaker(engine)
        sounds.append(speaker.speak([speaker.prefill(0, sampling=Sampling(seed=2))], 12)[0])
        engine.close()
    assert len(sounds[0]) == len(sounds[1]) > 0
    assert int(np.abs(sounds[0].astype(int) - sounds[1]).max()) <= PCM_TOLERANCE


def test_native_equals_reference(tiny: Path) -> None:
    """Same codes, and samples within rounding, over several voices and settings."""
    engines = [load_engine(tiny, backend=name, slots=2) for name in CPU_BACKENDS]
    for voice, sampling in (
        ("ada", Sampling(seed=1)),
        ("bob", Sampling(1.2, 0.95, 20, 7)),
        ("ada", Sampling(0.3, 0.6)),
    ):
        sounds = []
        for engine in engines:
            speaker = Speaker(engine)
            sounds.append(speaker.speak([speaker.prefill(1, voice=voice, sampling=sampling)], 30)[0])
        assert len(sounds[0]) == len(sounds[1])
        assert int(np.abs(sounds[0].astype(int) - sounds[1]).max()) <= PCM_TOLERANCE
