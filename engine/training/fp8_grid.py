"""Weights that FP8 holds exactly: `python -m engine.training grid`. A model on the grid and its FP8 form are one model.

The grid of a row is E4M3 times one scale (`engine.quant.formats.PER_ROW`). Two rules make it survive every way to a
device: the scale has four significant bits, as E4M3 has, so a weight has eight and is exact in fp16 and in bf16; and
the largest weight of a row is 448 scales, so `quantise` finds that very scale again.

Rounding is that of GPTQ (Frantar et al., "GPTQ: Accurate Post-Training Quantization", 2022): column after column, and
what rounding one changes in the products is made good in those still to come. What a product's inputs look like is
learned from the model's own speech.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from engine.api import Sampling
from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.model.dual_ar import DualAR
from engine.prompt import PromptBuilder
from engine.quant.formats import AMAX_FLOOR, E4M3_MAX
from engine.quant.model import is_product
from engine.stored_model import open_model
from engine.tokenizer import Tokenizer
from engine.training.texts import agent_sentences
from engine.voices import read_voices
from engine.weights import to_raw_names

__all__ = ["onto_grid", "put_on_grid", "speech_of"]

SENTENCES = 24
FRAMES = 96
CONTEXT = 1024
SAMPLING = Sampling(temperature=0.7, top_p=0.8, seed=1)
DAMPING = 0.01
"""Of the Gram matrix's mean diagonal, added to it: GPTQ's own choice."""
SIGNIFICANDS = 16
"""A four-bit significand is a whole number of 16ths in [1/2, 1)."""
SCALES_BELOW, SCALES_ABOVE = 3, 1
"""How many neighbours of amax / 448 are tried as a row's scale."""


def onto_grid(weight: Tensor, gram: Tensor) -> Tensor:
    """weight [N, K] of any float dtype -> fp32 [N, K] on the grid, close in the products with inputs whose sum of x x^T
    is `gram` [K, K]."""
    exact = weight.float()
    importance = gram.diagonal()
    scale = _scales(exact, importance)
    largest = exact.abs().argmax(1)
    order = importance.argsort(descending=True)
    factor = _factor(gram[order][:, order])
    left, grid = exact[:, order].clone(), torch.empty_like(exact)
    for i, column in enumerate(order.tolist()):
        rounded = _rounded(left[:, i], scale, largest == column, exact[:, column])
        grid[:, column] = rounded
        left[:, i:] -= ((left[:, i] - rounded) / factor[i, i])[:, None] * factor[i, i:]
    return grid


def _factor(gram: Tensor) -> Tensor:
    """The upper Cholesky factor of the damped inverse, which carries a column's error to those after it."""
    damped = gram.double() + DAMPING * gram.diagonal().mean().double() * torch.eye(len(gram), dtype=torch.float64)
    return torch.linalg.cholesky(torch.linalg.inv(damped), upper=True).float()


def _rounded(values: Tensor, scale: Tensor, is_largest: Tensor, exact: Tensor) -> Tensor:
    """The nearest grid numbers; where a row has its largest weight, 448 scales of that weight's sign."""
    steps = (values / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).float()
    return torch.where(is_largest, exact.sign() * E4M3_MAX, steps) * scale


def _scales(weight: Tensor, importance: Tensor) -> Tensor:
    """fp32 [N]: for each row the four-bit number near amax / 448 that rounds its weights best."""
    fraction, exponent = (weight.abs().amax(1).clamp(min=AMAX_FLOOR) / E4M3_MAX).frexp()
    nearest = (fraction * SIGNIFICANDS).round()
    largest = torch.zeros_like(weight, dtype=torch.bool).scatter_(1, weight.abs().argmax(1, keepdim=True), True)
    best = torch.full((len(weight),), torch.inf)
    scale = torch.zeros(len(weight))
    for step in range(-SCALES_BELOW, SCALES_ABOVE + 1):
        tried = torch.ldexp((nearest + step).clamp(max=SIGNIFICANDS) / SIGNIFICANDS, exponent)
        error = (_rounded(weight, tried[:, None], largest, weight) - weight).square() @ importance
        scale, best = torch.where(error < best, tried, scale), torch.minimum(error, best)
    return scale


def put_on_grid(folder: Path, *, sentences: int = SENTENCES) -> None:
    """Moves the products of a model folder in plain floats onto the grid, in place, after hearing it say so many
    sentences. Raises what opening it raises."""
    grams = _grams(open_model(folder).in_fp32(), speech_of(folder, sentences))
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for stored_name, tensor in tensors.items():
        (name,) = to_raw_names({stored_name: tensor})
        if is_product(name):
            tensors[stored_name] = _in_dtype(onto_grid(tensor, grams[name]), tensor.dtype)
    save_file(tensors, file, metadata={"format": "pt"})


def _in_dtype(grid: Tensor, dtype: torch.dtype) -> Tensor:
    stored = grid.to(dtype)
    assert torch.equal(stored.float(), grid), "weights so small that they leave the grid when they are stored"
    return stored


@torch.inference_mode()
def speech_of(folder: Path, sentences: int) -> list[Tensor]:
    """How a model says sentences from our templates, voices in turn: columns int64 [1+K, T] of prompt and speech."""
    model, codec = open_model(folder).in_fp32(), Codec.load(folder)
    backend = ReferenceBackend(model, codec, slots=1, context_tokens=CONTEXT)
    prompts = PromptBuilder(Tokenizer(folder), codec.config.n_codebooks)
    voices = list(read_voices(folder, codec.config.codebook_sizes).values())
    spoken = []
    for n, text in enumerate(agent_sentences(sentences, seed=1)):
        prompt = np.concatenate([prompts.prefix(voices[n % len(voices)]), prompts.turn(text)], axis=1)
        backend.prefill(0, prompt[:, :-1], 0)
        backend.arm(0, prompt[:, -1], prompt.shape[1] - 1, SAMPLING)
        for _ in range(FRAMES):
            if backend.collect(backend.submit([0], [])).ended[0]:
                break
        codes = backend.codes(0)
        frames = np.concatenate([model.semantic_begin + codes[:1], codes])
        spoken.append(torch.from_numpy(np.concatenate([prompt, frames], axis=1).astype(np.int64)))
    return spoken


@torch.inference_mode()
def _grams(model: DualAR, rows: Iterable[Tensor]) -> dict[str, Tensor]:
    """For each product's weight the sum of x x^T over its inputs, fp32 [K, K]."""
    grams: dict[str, Tensor] = {}
    handles = []

    def watch(name: str, module: nn.Linear) -> None:
        grams[name] = torch.zeros(module.in_features, module.in_features)

        def add(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            x = inputs[0].flatten(0, -2)
            grams[name] += x.T @ x

        handles.append(module.register_forward_pre_hook(add))

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and is_product(f"{name}.weight"):
            watch(f"{name}.weight", module)
    for columns in rows:
        _, fast_input = model.slow(columns)
        speech = (columns[0] >= model.semantic_begin) & (columns[0] <= model.semantic_end)
        codes = columns[1:, speech].T
        # A frame's fast inputs are what the column before it gave, and its own codes but the last.
        first = model.project(fast_input[speech.roll(-1)])[:, None]
        model.fast(torch.cat([first, model.fast_embeddings(codes[:, :-1])], 1), 0)
    for handle in handles:
        handle.remove()
    return grams
