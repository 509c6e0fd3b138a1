"""Drawing tokens: the family's filters, repetition-aware sampling, and noise that is keyed, not drawn.

**Filters** (S2 page 4.1, in this order): sort descending; probabilities at temperature 1; drop rank i when the
cumulative mass *including i* exceeds top_p, or i >= top_k; rank 0 always stays; divide by max(T, 1e-5); softmax;
take argmax p_i / (-ln u_i), an exponential race.

**Noise.** Every backend draws the same uniforms: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", 2011) with key = (seed low 32 bits, seed high 32 bits) and counter = (i // 4, frame, stream, 0); word
i % 4 of the block gives u = ((word >> 9) + 0.5) * 2^-23, exact in fp32 and never 0 or 1. i is the index in the row
of logits; stream is the codebook (0 slow, 1..K-1 fast) and K for the fallback draw of repetition-aware sampling.

**Repetition-aware sampling** (RAS): if the drawn semantic token is among the last 10, the token of a second draw
at T = 1.0, top_p = 0.9 is taken instead, once. The first frame of a unit is exempt and is not remembered.

Nothing here waits for the device. Letters: B rows, V logits, K codebooks, W the window.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "RAS_TEMPERATURE",
    "RAS_TOP_P",
    "RAS_WINDOW",
    "SamplingRows",
    "is_repeated",
    "philox",
    "remember",
    "sample",
    "uniforms",
]

RAS_WINDOW = 10
RAS_TEMPERATURE = 1.0
RAS_TOP_P = 0.9
MIN_TEMPERATURE = 1e-5

_WORD = 0xFFFFFFFF


class SamplingRows(NamedTuple):
    """Per-row parameters as device tensors: temperature, top_p float32 [B]; top_k, seed int64 [B]."""

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    seed: Tensor

    def fallback(self) -> SamplingRows:
        """The parameters of the second draw of RAS."""
        return self._replace(
            temperature=torch.full_like(self.temperature, RAS_TEMPERATURE),
            top_p=torch.full_like(self.top_p, RAS_TOP_P),
        )


def sample(logits: Tensor, rows: SamplingRows, noise: Tensor) -> Tensor:
    """Draw one index per row: logits [B, V], noise (uniforms) [B, V] -> int64 [B]."""
    logits = logits.float()
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    mass = ordered.softmax(dim=-1).cumsum(dim=-1)
    rank = torch.arange(logits.shape[-1], device=logits.device)
    dropped = (mass > rows.top_p[:, None]) | (rank >= rows.top_k[:, None])
    dropped[:, 0] = False
    kept = ordered.masked_fill(dropped, float("-inf"))
    chances = (kept / rows.temperature.clamp(min=MIN_TEMPERATURE)[:, None]).softmax(dim=-1)
    race = chances / -noise.gather(-1, order).log()
    return order.gather(-1, race.argmax(dim=-1, keepdim=True)).squeeze(-1)


def uniforms(seed: Tensor, frame: Tensor, stream: int, count: int) -> Tensor:
    """fp32 [B, count] in (0, 1) for seed, frame int64 [B]."""
    blocks = torch.arange(-(-count // 4), device=seed.device)
    counter = (
        blocks.expand(seed.shape[0], -1),
        frame[:, None].expand(-1, blocks.shape[0]),
        torch.full_like(blocks, stream).expand(seed.shape[0], -1),
        torch.zeros_like(blocks).expand(seed.shape[0], -1),
    )
    words = philox(counter, (seed[:, None] & _WORD, (seed[:, None] >> 32) & _WORD))
    flat = torch.stack(words, dim=-1).flatten(-2)[:, :count]
    return ((flat >> 9).float() + 0.5) * 2.0**-23


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox4x32-10 on int64 tensors that hold 32-bit words. Products wrap in int64; their halves are right."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _WORD) ^ c1 ^ k0,
            p1 & _WORD,
            ((p0 >> 32) & _WORD) ^ c3 ^ k1,
            p0 & _WORD,
        )
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


def is_repeated(previous: Tensor, tokens: Tensor) -> Tensor:
    """Whether each row's token id (int32 [B]) stands in row 0 of its window int32 [B, K+1, W] -> bool [B].

    Zeros, the initial filling, never equal a semantic id.
    """
    _check(previous, tokens[:, None])
    return (previous[:, 0, :] == tokens[:, None]).any(dim=-1)


def remember(previous: Tensor, columns: Tensor) -> Tensor:
    """The windows rolled left with columns int32 [B, K+1] written at the right."""
    _check(previous, columns)
    if columns.shape[1] != previous.shape[1]:
        raise ValueError(f"next tokens have {columns.shape[1]} rows, the window {previous.shape[1]}")
    return torch.cat([previous[:, :, 1:], columns[:, :, None]], dim=-1)


def _check(previous: Tensor, tokens: Tensor) -> None:
    """The contract of the window: a wrong dtype or shape is an error, never a broadcast."""
    if previous.dtype != torch.int32 or previous.ndim != 3 or previous.shape[2] != RAS_WINDOW:
        raise ValueError(
            f"previous tokens must be int32 [B, K+1, {RAS_WINDOW}], not {previous.dtype} {list(previous.shape)}"
        )
    if tokens.dtype != torch.int32 or tokens.ndim != 2 or tokens.shape[0] != previous.shape[0]:
        raise ValueError(f"next tokens must be int32 [{previous.shape[0]}, …], not {tokens.dtype} {list(tokens.shape)}")
