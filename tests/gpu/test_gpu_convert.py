"""Converted checkpoints of the bundled voice on the device: the original's frames in FP8, each scheme's own numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.backends.cuda import CudaBackend
from engine.codec.codec import Codec
from engine.config import FP8_SCHEMES
from engine.convert import convert
from engine.cuda.load import make_backend
from engine.stored_model import open_model
from tests.gpu.test_gpu_backend import BUNDLED_VOICE, GOLDEN, GREEDY, codes_of, decode, start

pytestmark = pytest.mark.gpu

FRAMES = 12
SAME_INPUTS, ROUNDED_INPUTS = 0.999, 0.99
"""Cosine of the semantic logits with fp32 arithmetic on the same weights: activations in bf16, or in E4M3."""


@pytest.fixture(scope="module")
def prompt() -> np.ndarray:
    with np.load(GOLDEN) as golden:
        return golden["prompt_ref"]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("converted")
    with torch.device("cpu"):
        for scheme in FP8_SCHEMES:
            convert(BUNDLED_VOICE, home / scheme, scheme)
    return {scheme: home / scheme for scheme in FP8_SCHEMES}


def backend_of(folder: Path) -> CudaBackend:
    with torch.device("cpu"):
        model, codec = open_model(folder), Codec.load(folder)
    return make_backend(model, codec, slots=1, context_tokens=1024, fp8=True)


def test_the_converted_voice_makes_the_frames_of_the_original_in_fp8(
    converted: dict[str, Path], prompt: np.ndarray
) -> None:
    codes = []
    for folder in (BUNDLED_VOICE, converted["channels"]):
        backend = backend_of(folder)
        start(backend, 0, prompt, GREEDY)
        decode(backend, [0], FRAMES)
        codes.append(codes_of(backend, 0, FRAMES))
    assert np.array_equal(*codes)


@pytest.mark.parametrize("scheme", FP8_SCHEMES)
def test_logits_are_those_of_the_numbers_that_the_file_stands_for(
    converted: dict[str, Path], prompt: np.ndarray, scheme: str
) -> None:
    backend = backend_of(converted[scheme])
    start(backend, 0, prompt, GREEDY)
    decode(backend, [0], 1)
    with torch.device("cpu"), torch.inference_mode():
        model = open_model(converted[scheme]).in_fp32()
        exact = model.semantic_logits(model.slow(torch.from_numpy(prompt.astype(np.int64)))[0])[-1]
    got = backend._frame.logits[0, : exact.shape[0]].float().cpu()
    rounds = scheme == "channels" or (scheme == "mxfp8" and backend._device.kernels.has_block_scales)
    cosine = float(torch.cosine_similarity(got, exact, dim=0))
    assert cosine > (ROUNDED_INPUTS if rounds else SAME_INPUTS)
