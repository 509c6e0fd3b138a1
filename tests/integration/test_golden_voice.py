"""The bundled voice's golden values, made once from its weights in fp32: prompts, greedy codes, waves, encoding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import Epoch, Prefill, Sampling, SlotId, SlotRef, StepPlan, Vocode, Voice
from engine.codec.codec import Codec
from engine.load import BUNDLED_VOICE, load_engine, load_model
from engine.model.dual_ar import KvCache
from engine.quant.formats import PER_ROW, quantise
from engine.quant.model import is_product
from engine.stored_model import open_model

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "voice_v0.npz")
CASES = ("ref", "default")

WAVE_TOLERANCE = 1e-5
"""fp32 sums in another order; the golden waves agree within 5e-7 on the machine that made these tests."""

PCM_TOLERANCE = 2
"""int16 steps: a sample of the golden wave may round to a neighbour."""

FIRST_REPEAT = {"ref": 20, "default": 20}
"""The golden codes are plain argmax. From this frame on they repeat a recent semantic token, where the engine's
repetition-aware sampling draws anew."""

LOGIT_TIE = 1e-4
"""Two logits closer than this are a tie: which of them is larger depends on the order of summation."""


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.load(BUNDLED_VOICE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chunk", [40, 1, 3])
def test_codec_reproduces_the_golden_waves(codec: Codec, case: str, chunk: int) -> None:
    codes = torch.from_numpy(GOLDEN[f"codes_{case}"].astype(np.int64))
    state = codec.new_state(1)
    wave = torch.cat([codec.decode(state, 0, part) for part in codes.split(chunk, dim=1)])
    assert float(np.abs(wave.numpy() - GOLDEN[f"wave_{case}"]).max()) < WAVE_TOLERANCE


def test_codec_reproduces_the_golden_encoding(codec: Codec) -> None:
    assert np.array_equal(codec.encode(GOLDEN["encode_in"]), GOLDEN["encode_codes"])


@pytest.mark.parametrize("case", CASES)
@torch.inference_mode()
def test_model_reproduces_the_golden_codes(case: str) -> None:
    """Greedy, fed with the golden frames: each golden code is the largest logit, ties aside."""
    model = load_model(BUNDLED_VOICE)
    prompt = torch.from_numpy(GOLDEN[f"prompt_{case}"].astype(np.int64))
    golden = GOLDEN[f"codes_{case}"].astype(np.int64)
    tokens = prompt.shape[1]
    cache = KvCache.zeros(model.config.slow, 512)
    model.slow(prompt[:, :-1], 0, cache)
    column = prompt[:, -1:]
    for frame in range(golden.shape[1]):
        hidden, fast_input = model.slow(column, tokens - 1 + frame, cache)
        codes = golden[:, frame]
        logits = [model.semantic_logits(hidden)[-1]]
        fast_cache = KvCache.zeros(model.config.fast, model.config.num_codebooks)
        embedded = model.fast_embeddings(torch.from_numpy(codes[:-1]))
        x = torch.cat([model.project(fast_input[-1:]), embedded])
        logits += list(model.fast(x, 0, fast_cache)[1:])
        for row, code in zip(logits, codes, strict=True):
            assert float(row.max() - row[code]) < LOGIT_TIE
        column = torch.from_numpy(np.concatenate([[codes[0] + model.semantic_begin], codes]))[:, None]


def test_fp8_holds_the_voice_exactly() -> None:
    """So FP8 and bf16 are one model on a GPU, and the correctness gate compares arithmetic alone."""
    for name, tensor in open_model(BUNDLED_VOICE).tensors.items():
        assert isinstance(tensor, Tensor)
        if is_product(name):
            assert torch.equal(quantise(tensor, PER_ROW).dequantised(), tensor.float()), name
            assert torch.equal(tensor.bfloat16().float(), tensor.float()), name


@pytest.mark.parametrize(("case", "backend"), [("default", "reference"), ("default", "native"), ("ref", "native")])
def test_the_whole_engine_at_temperature_zero_speaks_the_golden_wave(case: str, backend: str) -> None:
    """Prompt, prefill, decode and codec together, one frame at a time."""
    engine = load_engine(BUNDLED_VOICE, backend=backend, slots=1)
    own = Voice("own", "", np.zeros((engine.limits.num_codebooks, 0), np.int16))
    voice = engine.voices["rowan"] if case == "ref" else own
    text = "Thank you for calling, how can I help you today?"
    ref, frames = SlotRef(SlotId(0), Epoch(1)), FIRST_REPEAT[case]
    prefilled = engine.prefill(Prefill(ref.slot, ref.epoch, voice, text, False, Sampling(temperature=0.0), frames))
    assert prefilled.prompt_tokens == GOLDEN[f"prompt_{case}"].shape[1]
    sound = []
    for frame in range(frames):
        plan = StepPlan(frame, (ref,), (Vocode(ref.slot, ref.epoch, frame, 1, reset=frame == 0),))
        sound.append(engine.collect(engine.submit(plan)).audio[0].pcm)
    engine.close()
    pcm = np.concatenate(sound).astype(int)
    golden = np.round(GOLDEN[f"wave_{case}"][: len(pcm)] * 32767).astype(int)
    assert int(np.abs(pcm - golden).max()) <= PCM_TOLERANCE
