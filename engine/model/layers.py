"""Building blocks of both stacks: RMSNorm, rotary tables, attention with an external KV cache, gated MLP.

Plain torch, correct in fp32. Leading dimensions are free: `...` is nothing for one sequence and B for a batch.
Letters: T tokens, S cached positions, C model dim, H query heads, G kv heads, D head dim.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.config import StackConfig

__all__ = ["Attention", "Block", "FeedForward", "RMSNorm", "apply_rope", "rope_table"]


class RMSNorm(nn.Module):
    """Normalise in fp32, cast back, then scale: the order the family was trained with."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        x32 = x.float()
        normed = x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + self.eps)
        return normed.type_as(x) * self.weight


def rope_table(head_dim: int, base: float, positions: int, *, bf16: bool) -> Tensor:
    """cos and sin, fp32 [positions, D/2, 2].

    The family's tables are rounded to bf16 and used rounded (S2 page, pitfall 1): exact tables sound wrong.
    """
    inverse = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), inverse)
    table = torch.stack([angles.cos(), angles.sin()], dim=-1)
    return table.bfloat16().float() if bf16 else table


def apply_rope(x: Tensor, table: Tensor) -> Tensor:
    """Rotate interleaved pairs (2i, 2i+1) of x [..., T, heads, D] by table [..., T, D/2, 2]; fp32 inside."""
    pairs = x.float().unflatten(-1, (-1, 2))
    cos, sin = table[..., None, :, 0], table[..., None, :, 1]
    even, odd = pairs[..., 0], pairs[..., 1]
    rotated = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1)
    return rotated.flatten(-2).type_as(x)


class Attention(nn.Module):
    """Causal grouped-query attention. The caller owns the cache: k and v are written into it in place."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.config = config
        width = config.q_width + 2 * config.kv_width
        self.wqkv = nn.Linear(config.dim, width, bias=config.qkv_bias)
        self.wo = nn.Linear(config.q_width, config.dim, bias=config.o_bias)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.norm_eps)

    def forward(self, x: Tensor, table: Tensor, start: int, cache: tuple[Tensor, Tensor] | None) -> Tensor:
        """x [..., T, C] at positions start..; table [T, D/2, 2]; cache k, v [..., S, G, D] or None (start 0)."""
        q, k, v = self.project(x, table)
        tokens = x.shape[-2]
        if cache is not None:
            end = start + tokens
            cache[0][..., start:end, :, :] = k
            cache[1][..., start:end, :, :] = v
            k, v = cache[0][..., :end, :, :], cache[1][..., :end, :, :]
        out = _attend(q, k, v, start)
        return self.wo(out.flatten(-2))

    def project(self, x: Tensor, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [..., T, C] -> rotated queries [..., T, H, D], rotated keys and values [..., T, G, D]."""
        c = self.config
        q, k, v = self.wqkv(x).split([c.q_width, c.kv_width, c.kv_width], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, c.head_dim)) for part in (q, k, v))
        if c.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        return apply_rope(q, table), apply_rope(k, table), v


def _attend(q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
    """q [..., T, H, D] at positions start.. over k, v [..., start+T, G, D] -> [..., T, H, D]."""
    group = q.shape[-2] // k.shape[-2]
    q, k, v = (t.transpose(-3, -2) for t in (q, k, v))
    k, v = (t.repeat_interleave(group, dim=-3) for t in (k, v))
    tokens, keys = q.shape[-2], k.shape[-2]
    mask = None
    if tokens > 1:
        mask = torch.ones(tokens, keys, dtype=torch.bool, device=q.device).tril(start)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(-3, -2)


class FeedForward(nn.Module):
    """SwiGLU: w2(silu(w1 x) * w3 x)."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.w1 = nn.Linear(config.dim, config.ffn_dim, bias=False)
        self.w3 = nn.Linear(config.dim, config.ffn_dim, bias=False)
        self.w2 = nn.Linear(config.ffn_dim, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_norm = RMSNorm(config.dim, config.norm_eps)
        self.ffn_norm = RMSNorm(config.dim, config.norm_eps)

    def forward(self, x: Tensor, table: Tensor, start: int, cache: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), table, start, cache)
        return x + self.feed_forward(self.ffn_norm(x))
