"""One frame for a batch of slots, as a fixed sequence of launches: captured once per bucket, replayed every step.

slow transformer → semantic token → fast transformer over the codebooks → the slots' books. Positions 0 and 1 of the
fast transformer are both known when it starts (the slow output and the semantic code), so they go in one pass and a
frame costs K-1 fast passes. Prefill is the same slow transformer over rows that are positions of one slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import StackConfig
from engine.cuda.fast_attention import fast_attend
from engine.cuda.kernels import Kernels
from engine.cuda.ops import Activation, Product, add_norm, attend, attention_blocks, embed, swiglu
from engine.cuda.slot_state import KvPool, SlotState, sample_residual, sample_semantic
from engine.cuda.weights import LayerWeights, ModelWeights

__all__ = ["FrameBuffers", "SlowBuffers", "decode_frame", "prefill_rows"]

RESIDENT_BLOCKS = 3 * 132
"""Attention blocks that run at once: three on each multiprocessor."""
MAX_SPLITS = 16
MAX_WAVES = 4


def splits_for(blocks: int) -> int:
    """Into how many parts the keys of each row are split, for so many blocks a part: as few as fill the device in whole
    waves. A last wave that is nearly empty costs as much as a full one. Fewer, longer parts are better otherwise.
    """
    best, best_filled = 1, 0.0
    for splits in range(1, MAX_SPLITS + 1):
        waves = -(-blocks * splits // RESIDENT_BLOCKS)
        filled = blocks * splits / (waves * RESIDENT_BLOCKS)
        if splits > 1 and waves > MAX_WAVES:
            break
        if filled > best_filled + 0.02:
            best, best_filled = splits, filled
    return best


def _splits(stack: StackConfig, rows: int, *, one_slot: bool) -> int:
    return splits_for(attention_blocks(rows, stack.heads, stack.kv_heads, one_slot=one_slot))


@dataclass(frozen=True, slots=True)
class _StackBuffers:
    """Intermediates of one stack for up to `rows` rows."""

    x: Tensor
    hidden: Activation
    attended: Activation
    gated: Activation
    qkv: Tensor
    projected: Tensor
    """Output of wo and of down, as a `Product` wants it."""
    gate_up: Tensor

    @classmethod
    def empty(cls, stack: StackConfig, rows: int, device: torch.device, *, fp8: bool) -> _StackBuffers:
        def bf16(width: int) -> Tensor:
            return torch.zeros((rows, width), dtype=torch.bfloat16, device=device)

        def activation(width: int) -> Activation:
            if not fp8:
                return Activation(bf16(width), None)
            values = torch.zeros((rows, 2, width), dtype=torch.float8_e4m3fn, device=device)
            return Activation(values, torch.zeros(rows, device=device))

        def product(width: int) -> Tensor:
            terms = (2,) if fp8 else ()
            return torch.zeros((rows, *terms, width), dtype=torch.bfloat16, device=device)

        return cls(
            x=torch.zeros((rows, stack.dim), device=device),
            hidden=activation(stack.dim),
            attended=activation(stack.q_width),
            gated=activation(stack.ffn_dim),
            qkv=product(stack.q_width + 2 * stack.kv_width),
            projected=product(stack.dim),
            gate_up=product(2 * stack.ffn_dim),
        )


@dataclass(frozen=True, slots=True)
class SlowBuffers:
    """What a pass of the slow transformer writes, for up to R rows."""

    stack: _StackBuffers
    row_slot: Tensor
    row_position: Tensor
    q: Tensor
    partial: Tensor
    stats: Tensor
    one_slot: bool
    """Whether all rows of a pass are positions of one slot, as in prefill."""

    @classmethod
    def empty(
        cls, stack: StackConfig, rows: int, device: torch.device, *, fp8: bool, one_slot: bool = False
    ) -> SlowBuffers:
        # The most (row, split) pairs of any batch up to `rows`.
        pairs = max(r * _splits(stack, r, one_slot=one_slot) for r in range(1, rows + 1)) * stack.heads
        return cls(
            _StackBuffers.empty(stack, rows, device, fp8=fp8),
            torch.zeros(rows, dtype=torch.int32, device=device),
            torch.zeros(rows, dtype=torch.int32, device=device),
            torch.zeros((rows, stack.heads, stack.head_dim), dtype=torch.bfloat16, device=device),
            torch.zeros(pairs * stack.head_dim, device=device),
            torch.zeros(pairs * 2, device=device),
            one_slot,
        )


@dataclass(frozen=True, slots=True)
class FrameBuffers:
    """What a decode step writes, for up to R rows."""

    slow: SlowBuffers
    fast: _StackBuffers
    """2R rows: the first pass has two positions per row."""
    hidden: Tensor
    """bf16 [R, C]: input of the slow head."""
    fast_in: Tensor
    """fp32 [R, C]: what conditions the fast transformer."""
    projected: Tensor | None
    fast_hidden: Tensor
    logits: Tensor
    fast_logits: Tensor
    fast_keys: Tensor
    """bf16 [layers, R, K, G, D]."""
    fast_values: Tensor
    row_codes: Tensor
    flags: Tensor
    """uint8 [2, R]: ended, finite."""

    @classmethod
    def empty(cls, weights: ModelWeights, rows: int, device: torch.device) -> FrameBuffers:
        config, fp8 = weights.config, weights.has_fp8_activations
        slow, fast = config.slow, config.fast

        def bf16(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.bfloat16, device=device)

        cache = (fast.layers, rows, config.num_codebooks, fast.kv_heads, fast.head_dim)
        return cls(
            slow=SlowBuffers.empty(slow, rows, device, fp8=fp8),
            fast=_StackBuffers.empty(fast, 2 * rows, device, fp8=fp8),
            hidden=bf16(rows, slow.dim),
            fast_in=torch.zeros((rows, slow.dim), device=device),
            projected=bf16(rows, fast.dim) if config.has_project_in else None,
            fast_hidden=bf16(rows, fast.dim),
            logits=torch.zeros((rows, weights.slow.head.weight.shape[0]), device=device),
            fast_logits=torch.zeros((rows, weights.fast.head.weight.shape[0]), device=device),
            fast_keys=bf16(*cache),
            fast_values=bf16(*cache),
            row_codes=torch.zeros((rows, config.num_codebooks), dtype=torch.int32, device=device),
            flags=torch.zeros((2, rows), dtype=torch.uint8, device=device),
        )


def prefill_rows(
    kernels: Kernels,
    weights: ModelWeights,
    kv: KvPool,
    buffers: SlowBuffers,
    columns: Tensor,
    positions: Tensor,
    rows: int,
) -> None:
    """Write KV of `rows` columns: int32 [rows, 1+K] at positions int32 [rows] of the slots in buffers.row_slot."""
    x = _embed(kernels, weights, buffers, columns, positions, rows, by_slot=False)
    _slow_layers(kernels, weights, kv, buffers, x, rows, kv_only=True)


def decode_frame(
    kernels: Kernels, weights: ModelWeights, kv: KvPool, state: SlotState, buffers: FrameBuffers, rows: int
) -> None:
    """One frame for the slots in buffers.slow.row_slot[:rows]; answers in buffers.flags[:, :rows] and in `state`."""
    config, slow = weights.config, buffers.slow
    x = _embed(kernels, weights, slow, state.columns, state.positions, rows, by_slot=True)
    last = _slow_layers(kernels, weights, kv, slow, x, rows, kv_only=False)
    conditioned = buffers.fast_in[:rows]
    add_norm(
        kernels,
        x,
        last,
        weights.slow.norm,
        Activation(buffers.hidden[:rows], None),
        eps=config.slow.norm_eps,
        normed=conditioned if config.norm_fastlayer_input else None,
        summed=None if config.norm_fastlayer_input else conditioned,
    )
    logits = buffers.logits[:rows]
    _matmul_fp32(buffers.hidden[:rows], weights.slow.head.weight, logits)
    if weights.project_in is not None:
        assert buffers.projected is not None
        torch.mm(conditioned.to(torch.bfloat16), weights.project_in.weight.T, out=buffers.projected[:rows])
        conditioned = buffers.projected[:rows]
    row_slot, row_codes = slow.row_slot[:rows], buffers.row_codes[:rows]
    sample_semantic(
        kernels,
        state,
        row_slot,
        logits,
        conditioned,
        weights.project_bias,
        weights.fast_embeddings,
        buffers.fast.x[: 2 * rows],
        row_codes,
        buffers.flags[0, :rows],
        buffers.flags[1, :rows],
        semantic_begin=weights.semantic_begin,
    )
    for codebook in range(1, config.num_codebooks):
        fast_logits = _fast_pass(kernels, weights, buffers, rows, codebook)
        sample_residual(
            kernels,
            state,
            row_slot,
            fast_logits,
            weights.fast_embeddings,
            buffers.fast.x[:rows],
            row_codes,
            buffers.flags[1, :rows],
            codebook=codebook,
            length=config.residual_codebook_size,
            semantic_begin=weights.semantic_begin,
        )


def _embed(
    kernels: Kernels,
    weights: ModelWeights,
    buffers: SlowBuffers,
    columns: Tensor,
    positions: Tensor,
    rows: int,
    *,
    by_slot: bool,
) -> Tensor:
    x = buffers.stack.x[:rows]
    embed(
        kernels,
        buffers.row_slot[:rows],
        columns,
        positions,
        weights.embeddings,
        weights.codebook_embeddings,
        x,
        buffers.row_position[:rows],
        by_slot=by_slot,
        semantic_begin=weights.semantic_begin,
        spoken_scale=weights.spoken_scale,
    )
    return x


def _slow_layers(
    kernels: Kernels,
    weights: ModelWeights,
    kv: KvPool,
    buffers: SlowBuffers,
    x: Tensor,
    rows: int,
    *,
    kv_only: bool,
) -> Product | None:
    """All layers; what the last one adds is returned for the final norm to add. `kv_only` stops at the last KV."""
    stack, b = weights.config.slow, buffers.stack
    splits = _splits(stack, rows, one_slot=buffers.one_slot)
    pairs = rows * splits * stack.heads
    partial = buffers.partial[: pairs * stack.head_dim].view(rows, splits, stack.heads, stack.head_dim)
    stats = buffers.stats[: pairs * 2].view(rows, splits, stack.heads, 2)
    delta: Product | None = None
    for index, layer in enumerate(weights.slow.layers):
        hidden = b.hidden.rows(rows)
        add_norm(kernels, x, delta, layer.attention_norm, hidden, eps=stack.norm_eps)
        last_kv = kv_only and index == stack.layers - 1
        attended = b.attended.rows(rows)
        attend(
            kernels,
            layer.wqkv(kernels, hidden, b.qkv[:rows]),
            layer.qk_norms,
            weights.slow.rope,
            buffers.row_slot[:rows],
            buffers.row_position[:rows],
            kv.keys[index],
            kv.values[index],
            buffers.q[:rows],
            partial,
            stats,
            None if last_kv else attended,
            eps=stack.norm_eps,
            one_slot=buffers.one_slot,
        )
        if last_kv:
            return None
        delta = _after_attention(kernels, layer, b, x, attended, rows, stack.norm_eps)
    return delta


def _fast_pass(kernels: Kernels, weights: ModelWeights, buffers: FrameBuffers, rows: int, codebook: int) -> Tensor:
    """The pass that predicts `codebook`: positions 0 and 1 together, or position `codebook` -> logits fp32 [B, V]."""
    stack, b = weights.config.fast, buffers.fast
    tokens, first = (2, 0) if codebook == 1 else (1, codebook)
    total = rows * tokens
    x = b.x[:total]
    delta: Product | None = None
    for index, layer in enumerate(weights.fast.layers):
        hidden = b.hidden.rows(total)
        add_norm(kernels, x, delta, layer.attention_norm, hidden, eps=stack.norm_eps)
        attended = b.attended.rows(total)
        fast_attend(
            kernels,
            layer.wqkv(kernels, hidden, b.qkv[:total]),
            layer.qk_norms,
            weights.fast.rope,
            buffers.fast_keys[index, :rows],
            buffers.fast_values[index, :rows],
            attended,
            heads=stack.heads,
            first=first,
            tokens=tokens,
            eps=stack.norm_eps,
        )
        delta = _after_attention(kernels, layer, b, x, attended, total, stack.norm_eps)
    hidden_out = Activation(buffers.fast_hidden[:rows], None)
    add_norm(kernels, x, delta, weights.fast.norm, hidden_out, eps=stack.norm_eps, last_of=tokens)
    logits = buffers.fast_logits[:rows]
    _matmul_fp32(buffers.fast_hidden[:rows], weights.fast.head.weight, logits)
    return logits


def _after_attention(
    kernels: Kernels,
    layer: LayerWeights,
    b: _StackBuffers,
    x: Tensor,
    attended: Activation,
    rows: int,
    eps: float,
) -> Product:
    """Output projection, residual, feed-forward; the feed-forward's result is left to be added."""
    delta = layer.wo(kernels, attended, b.projected[:rows])
    hidden = b.hidden.rows(rows)
    add_norm(kernels, x, delta, layer.ffn_norm, hidden, eps=eps)
    gated = b.gated.rows(rows)
    swiglu(kernels, layer.gate_up(kernels, hidden, b.gate_up[:rows]), gated)
    return layer.down(kernels, gated, b.projected[:rows])


def _matmul_fp32(x: Tensor, weight: Tensor, out: Tensor) -> None:
    """bf16 x [B, C] times weight [V, C] -> fp32 logits: rounding them to bf16 would make ties."""
    if x.is_cuda:
        torch.mm(x, weight.T, out_dtype=torch.float32, out=out)
    else:
        torch.mm(x.float(), weight.float().T, out=out)
