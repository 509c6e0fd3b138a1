"""What rounding costs a model, scheme by scheme (`loadtest.micro.fp8_schemes quality`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from engine.api import Sampling
from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.gate.correctness import SENTENCES
from engine.load import load_model
from engine.model.dual_ar import DualAR, KvCache
from engine.prompt import PromptBuilder
from engine.quant.formats import GROUPS_128, MX_32, PER_ROW, PER_TENSOR, SQUARES_128, Grouping, in_two_terms, quantise
from engine.quant.model import is_product
from engine.tokenizer import Tokenizer
from engine.voices import read_voices

__all__ = ["ROUNDINGS", "Quality", "measure_quality"]

FRAMES = 40
CONTEXT = 1024
GREEDY = Sampling(temperature=1e-6, top_p=0.9, top_k=30, seed=1)

Round = Callable[[Tensor], Tensor]


def bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def fp16(x: Tensor) -> Tensor:
    return x.half().float()


def rounded(grouping: Grouping) -> Round:
    def to_grid(x: Tensor) -> Tensor:
        return quantise(x.flatten(0, -2), grouping).dequantised().view(x.shape)

    return to_grid


def two_terms(x: Tensor) -> Tensor:
    return in_two_terms(x.flatten(0, -2)).view(x.shape)


ROUNDINGS: dict[str, tuple[Round, Round]] = {
    "fp16 inputs": (bf16, fp16),
    "tensor": (rounded(PER_TENSOR), rounded(PER_TENSOR)),
    "row-wise": (rounded(PER_ROW), rounded(PER_ROW)),
    "row-wise, two terms": (rounded(PER_ROW), two_terms),
    "w8a16": (rounded(PER_ROW), bf16),
    "w8a16, fp16 inputs": (rounded(PER_ROW), fp16),
    "bsgemm": (rounded(SQUARES_128), rounded(GROUPS_128)),
    "bsgemm a16": (rounded(SQUARES_128), bf16),
    "mxfp8": (rounded(MX_32), rounded(MX_32)),
    "mxfp8 a16": (rounded(MX_32), bf16),
}
"""Weights and inputs of the layers' products. What they are compared with has bf16 for both; "fp16 inputs" differs from
it by input rounding alone, so it tells how much of the rest is the model's own near-ties."""


@dataclass(frozen=True, slots=True)
class Quality:
    scheme: str
    followed: list[int]
    """For each sentence of the gate: frames from the start that equal the bf16 model's in every codebook, of FRAMES."""
    kl: list[float]
    """Nats, by codebook, mean over the frames of the bf16 path."""
    top1: list[float]
    weight_error: float
    """Relative L2 of all rounded weights."""


@torch.inference_mode()
def measure_quality(
    folder: Path, schemes: Sequence[str] = tuple(ROUNDINGS), sentences: Sequence[str] = SENTENCES
) -> list[Quality]:
    """Raises what loading raises, LayoutError where a scheme's groups do not tile the model. Prints as it goes."""
    codec, prompts = Codec.load(folder), _prompts(folder, sentences)
    exact = _model(folder, (bf16, bf16))[0]
    paths = [_greedy(exact, codec, prompt) for prompt in prompts]
    truths = [_logits(exact, prompt, path) for prompt, path in zip(prompts, paths, strict=True)]
    found = []
    for name in schemes:
        model, weight_error = _model(folder, ROUNDINGS[name])
        followed = [_equal_frames(_greedy(model, codec, p), path) for p, path in zip(prompts, paths, strict=True)]
        kl, top1 = _agreement(truths, [_logits(model, p, path) for p, path in zip(prompts, paths, strict=True)])
        found.append(Quality(name, followed, kl, top1, weight_error))
        print(
            f"{name:20s} followed {' '.join(f'{n:2d}' for n in followed)}  KL {kl[0]:.5f}, {np.mean(kl[1:]):.5f}  "
            f"top-1 {100 * top1[0]:.1f} %, {100 * np.mean(top1[1:]):.1f} %  weights off by {100 * weight_error:.2f} %",
            flush=True,
        )
    return found


def _prompts(folder: Path, sentences: Sequence[str]) -> list[np.ndarray]:
    """int [1+K, T] each: a voice's prefix and a sentence."""
    codec = Codec.load(folder).config
    builder = PromptBuilder(Tokenizer(folder), codec.n_codebooks)
    voice = next(iter(read_voices(folder, codec.codebook_sizes).values()))
    return [np.concatenate([builder.prefix(voice), builder.turn(text)], axis=1) for text in sentences]


def _model(folder: Path, rounding: tuple[Round, Round]) -> tuple[DualAR, float]:
    """Everything in bf16 numbers, products rounded further; and the relative error of their weights."""
    model, (weight, activation) = load_model(folder), rounding
    error = size = 0.0
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            parameter.data = bf16(parameter.data)
        if isinstance(module, nn.Linear) and is_product(f"{name}.weight"):
            plain = module.weight.data
            module.weight.data = weight(plain)
            error += float((module.weight.data - plain).square().sum())
            size += float(plain.square().sum())
            module.register_forward_pre_hook(lambda _, inputs: (activation(inputs[0]),))
    return model, (error / size) ** 0.5


def _greedy(model: DualAR, codec: Codec, prompt: np.ndarray) -> np.ndarray:
    """int [K, F], up to the end of speech."""
    backend = ReferenceBackend(model, codec, slots=1, context_tokens=min(CONTEXT, model.config.slow.max_seq_len))
    backend.prefill(0, prompt[:, :-1], 0)
    backend.arm(0, prompt[:, -1], prompt.shape[1] - 1, GREEDY)
    for _ in range(FRAMES):
        if backend.collect(backend.submit([0], [])).ended[0]:
            break
    return backend.codes(0)


def _equal_frames(got: np.ndarray, path: np.ndarray) -> int:
    frames = min(got.shape[1], path.shape[1])
    equal = (got[:, :frames] == path[:, :frames]).all(axis=0)
    if not equal.all():
        return int(np.argmin(equal))
    return FRAMES if got.shape == path.shape else frames


def _logits(model: DualAR, prompt: np.ndarray, path: np.ndarray) -> list[Tensor]:
    """Per codebook [F, V], where the codes of `path` [K, F] follow the prompt."""
    spoken, start = torch.from_numpy(path.astype(np.int64)), torch.from_numpy(prompt.astype(np.int64))
    columns = torch.cat([start, torch.cat([model.semantic_begin + spoken[:1], spoken])], dim=1)[:, :-1]
    hidden, fast_input = model.slow(columns, 0, KvCache.zeros(model.config.slow, columns.shape[1]))
    frames = spoken.shape[1]
    embedded = model.fast_embeddings.weight[spoken[:-1].T]
    x = torch.cat([model.project(fast_input[-frames:])[:, None], embedded], dim=1)
    residual = model.fast(x, 0)[..., : model.config.residual_codebook_size]
    return [model.semantic_logits(hidden[-frames:]), *residual.unbind(1)[1:]]


def _agreement(truths: list[list[Tensor]], others: list[list[Tensor]]) -> tuple[list[float], list[float]]:
    """KL divergence and top-1 agreement by codebook, over all frames of all sentences."""
    kl, top1 = [], []
    for codebook in range(len(truths[0])):
        p, q = (torch.cat([logits[codebook] for logits in side]).log_softmax(-1) for side in (truths, others))
        kl.append(float((p.exp() * (p - q)).sum(-1).mean()))
        top1.append(float((p.argmax(-1) == q.argmax(-1)).float().mean()))
    return kl, top1
