"""Which tokens a quantised model chooses otherwise than the bf16 one, and which of them bf16 itself leaves open.

Sums in bf16 arithmetic depend on their order, so two honest bf16 runs part where two tokens are nearly equal: the
bundled voice, summed in another order, leaves its own greedy path within five frames on one sentence of six
(loadtest/LOG.md). So a differing token is held against the bf16 model's margin between the two, and the margin
against what bf16 rounding does to margins in the same frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from engine.api import Sampling
from engine.backends.base import Backend
from engine.model.dual_ar import DualAR
from engine.quant.model import is_product

__all__ = ["Difference", "ReadableBackend", "differences", "forced_logits", "greedy", "margin_noise", "start"]

GREEDY = Sampling(temperature=1e-6, top_p=0.9, top_k=30, seed=1)


class ReadableBackend(Backend, Protocol):
    """The backends that tell a unit's codes."""

    def codes(self, slot: int) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class Difference:
    frame: int
    codebook: int
    margin: float
    """By how much the bf16 model's logit of its own token is above that of the other one."""


def start(backend: Backend, prompt: np.ndarray) -> None:
    """Columns [1+K, T] are in slot 0, to be decoded greedily."""
    backend.prefill(0, prompt[:, :-1], 0)
    backend.arm(0, prompt[:, -1], prompt.shape[1] - 1, GREEDY)


def greedy(backend: ReadableBackend, prompt: np.ndarray, frames: int) -> np.ndarray:
    """int [K, F], up to the end of speech."""
    start(backend, prompt)
    for _ in range(frames):
        if backend.collect(backend.submit([0], [])).ended[0]:
            break
    return backend.codes(0)


def differences(
    backend: ReadableBackend, prompt: np.ndarray, path: np.ndarray, logits: list[Tensor], semantic_begin: int
) -> list[Difference]:
    """Where `backend` leaves `path` [K, F], the bf16 model's codes behind `prompt`; `logits` are that model's along it.

    After a difference it is set back onto the path at the next frame, so that every frame is judged. Within a frame,
    what follows a difference has another history and is not judged.
    """
    found: list[Difference] = []
    frames, at = path.shape[1], 0
    while at < frames:
        spoken = np.concatenate([semantic_begin + path[:1, :at], path[:, :at]])
        codes = greedy(backend, np.concatenate([prompt, spoken], axis=1), frames - at)
        equal = _equal_frames(codes, path[:, at:])
        at += equal
        if at < frames:
            found.append(_first_difference(codes[:, equal : equal + 1], path[:, at], logits, at))
        at += 1
    return found


def _equal_frames(codes: np.ndarray, path: np.ndarray) -> int:
    same = (codes == path[:, : codes.shape[1]]).all(axis=0)
    return len(same) if same.all() else int(np.argmin(same))


def _first_difference(codes: np.ndarray, wanted: np.ndarray, logits: list[Tensor], frame: int) -> Difference:
    """`codes` [K, 1], or [K, 0] where speech ended instead: the token behind the last semantic code."""
    codebook = int(np.argmax(codes[:, 0] != wanted)) if codes.shape[1] else 0
    row = logits[codebook][frame]
    other = int(codes[codebook, 0]) if codes.shape[1] else len(row) - 1
    return Difference(frame, codebook, float(row[wanted[codebook]] - row[other]))


def forced_logits(model: DualAR, prompt: np.ndarray, path: np.ndarray) -> list[Tensor]:
    """Per codebook [frames, V], in fp32, where the codes of `path` [K, F] follow the prompt."""
    spoken = torch.from_numpy(path.astype(np.int64))
    columns = torch.cat(
        [torch.from_numpy(prompt.astype(np.int64)), torch.cat([model.semantic_begin + spoken[:1], spoken])], 1
    )
    hidden, fast_input = model.slow(columns[:, :-1])
    frames = spoken.shape[1]
    embedded = model.fast_embeddings.weight[spoken[:-1].T]
    x = torch.cat([model.project(fast_input[-frames:])[:, None], embedded], dim=1)
    residual = model.fast(x, 0)[..., : model.config.residual_codebook_size]
    semantic = model.semantic_logits(hidden[-frames:])
    return [semantic, *(residual[:, k] for k in range(1, model.config.num_codebooks))]


def margin_noise(model: DualAR, prompt: np.ndarray, path: np.ndarray, exact: list[Tensor]) -> float:
    """The most that bf16 inputs and results of the layers' products change the margin of the two likeliest tokens, over
    all tokens of `path`. `exact`: the logits without that rounding."""
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and is_product(f"{name}.weight"):
            handles.append(module.register_forward_pre_hook(_round_input))
            handles.append(module.register_forward_hook(_round_result))
    rounded = forced_logits(model, prompt, path)
    for handle in handles:
        handle.remove()
    largest = 0.0
    for plain, noisy in zip(exact, rounded, strict=True):
        pair = plain.topk(2, dim=-1).indices
        change = noisy.gather(-1, pair).diff(dim=-1) - plain.gather(-1, pair).diff(dim=-1)
        largest = max(largest, float(change.abs().max()))
    return largest


def _round_input(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
    return (inputs[0].bfloat16().float(),)


def _round_result(_: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output.bfloat16().float()
