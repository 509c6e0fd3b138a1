"""The kernels of the two transformers as operations on tensors: contracts checked, parameters packed, launched.

Every operation writes into tensors it is given: they are captured in graphs, so their addresses must not change.
Letters: B rows, C model dim, H heads, G kv heads, D head dim, S positions, K codebooks.
"""

from __future__ import annotations

import math
from ctypes import Structure, c_float, c_int, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cuda.kernels import Kernels, KernelSpec

__all__ = [
    "Activation",
    "Product",
    "add_norm",
    "attend",
    "attention_blocks",
    "embed",
    "expect",
    "kv_define",
    "pointer",
    "swiglu",
]

LOG2_E = math.log2(math.e)
MAX_HEAD_GROUP = 8
"""Query heads per kv head that fit into one tensor-core tile."""
REDUCE_SCRATCH_BYTES, ATTEND_WARPS, PREPARE_HEADS, COMBINE_THREADS = 128, 4, 8, 1024


@dataclass(frozen=True, slots=True)
class Activation:
    """Input of a matrix product: bf16 [B, width], or E4M3 [B, 2, width] with one fp32 scale per row [B]: the value is
    scale * (first + second / 16), which keeps the eight significant bits of bf16 (csrc/common/numeric.cuh)."""

    values: Tensor
    scale: Tensor | None

    def rows(self, count: int) -> Activation:
        return Activation(self.values[:count], None if self.scale is None else self.scale[:count])


@dataclass(frozen=True, slots=True)
class Product:
    """Output of a matrix product: bf16 [B, width], or raw bf16 [B, 2, width], one row for each term of the input, to be
    joined and multiplied by row [B] and channel [width] scales."""

    values: Tensor
    row_scale: Tensor | None
    channel_scale: Tensor | None


def expect(tensor: Tensor, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """The contract of one argument. Raises ValueError: a wrong layout must never be read as another."""
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or not tensor.is_contiguous():
        raise ValueError(
            f"{name} must be contiguous {dtype} {list(shape)}, "
            f"not {tensor.dtype} {list(tensor.shape)} with strides {list(tensor.stride())}"
        )


def pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


class _Product(Structure):
    _fields_ = [("values", c_void_p), ("row_scale", c_void_p), ("channel_scale", c_void_p)]


def _product(product: Product | None, rows: int, width: int) -> _Product:
    if product is None:
        return _Product(None, None, None)
    terms = () if product.row_scale is None else (2,)
    expect(product.values, "product", (rows, *terms, width), torch.bfloat16)
    if product.row_scale is not None:
        expect(product.row_scale, "row scale", (rows,), torch.float32)
    if product.channel_scale is not None:
        expect(product.channel_scale, "channel scale", (width,), torch.float32)
    return _Product(pointer(product.values), pointer(product.row_scale), pointer(product.channel_scale))


def _output(out: Activation | None, rows: int, width: int) -> tuple[int | None, int | None, int | None]:
    """(bf16, fp8, scale) pointers."""
    if out is None:
        return None, None, None
    if out.scale is None:
        expect(out.values, "output", (rows, width), torch.bfloat16)
        return pointer(out.values), None, None
    expect(out.values, "output", (rows, 2, width), torch.float8_e4m3fn)
    expect(out.scale, "output scale", (rows,), torch.float32)
    return None, pointer(out.values), pointer(out.scale)


class _EmbedParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("row_slot", "columns", "positions", "embeddings", "codebook_embeddings")),
        *((name, c_void_p) for name in ("x", "row_position")),
        *((name, c_int) for name in ("by_slot", "codebooks", "codebook_size", "semantic_begin", "dim")),
        ("spoken_scale", c_float),
    ]


EMBED = KernelSpec("embed.cu", "embed", 128, _EmbedParams)


def embed(
    kernels: Kernels,
    row_slot: Tensor,
    columns: Tensor,
    positions: Tensor,
    embeddings: Tensor,
    codebook_embeddings: Tensor,
    x: Tensor,
    row_position: Tensor,
    *,
    by_slot: bool,
    semantic_begin: int,
    spoken_scale: float,
) -> None:
    """Columns -> x fp32 [B, C] and row_position int32 [B].

    columns int32 [n, 1+K] and positions int32 [n] are indexed by slot (decode) or by row (prefill). The sum of text
    and codebook rows is multiplied by `spoken_scale` where the token is semantic.
    """
    rows, dim = x.shape
    codebooks = columns.shape[1] - 1
    expect(row_slot, "row_slot", (rows,), torch.int32)
    expect(columns, "columns", (columns.shape[0], 1 + codebooks), torch.int32)
    expect(positions, "positions", (columns.shape[0],), torch.int32)
    expect(embeddings, "embeddings", (embeddings.shape[0], dim), torch.bfloat16)
    expect(codebook_embeddings, "codebook_embeddings", (codebook_embeddings.shape[0], dim), torch.bfloat16)
    expect(x, "x", (rows, dim), torch.float32)
    expect(row_position, "row_position", (rows,), torch.int32)
    params = _EmbedParams(
        pointer(row_slot),
        pointer(columns),
        pointer(positions),
        pointer(embeddings),
        pointer(codebook_embeddings),
        pointer(x),
        pointer(row_position),
        int(by_slot),
        codebooks,
        codebook_embeddings.shape[0] // codebooks,
        semantic_begin,
        dim,
        spoken_scale,
    )
    kernels.launch(EMBED, (rows, -(-dim // (2 * EMBED.threads)), 1), params)


class _AddNormParams(Structure):
    _fields_ = [
        ("x", c_void_p),
        ("delta", _Product),
        *((name, c_void_p) for name in ("weight", "out_bf16", "out_fp8", "out_scale", "out_float", "out_sum")),
        *((name, c_int) for name in ("row_step", "row_first", "dim")),
        ("eps", c_float),
    ]


ADD_NORM_THREADS, SWIGLU_THREADS = 256, 512


def _quads(width: int, threads: int) -> tuple[tuple[str, int], ...]:
    """float4 registers per thread that hold a row."""
    return (("KF_QUADS", -(-width // (4 * threads))),)


def add_norm(
    kernels: Kernels,
    x: Tensor,
    delta: Product | None,
    weight: Tensor,
    out: Activation,
    *,
    eps: float,
    last_of: int = 1,
    normed: Tensor | None = None,
    summed: Tensor | None = None,
) -> None:
    """x += delta, then out = RMSNorm(x) * weight; x fp32 [B * last_of, C], out [B, C].

    Only the last of every `last_of` rows is read and written. `normed`, `summed` fp32 [B, C]: the norm's result and
    the sum itself at full precision.
    """
    rows, dim = x.shape[0] // last_of, x.shape[1]
    expect(x, "x", (rows * last_of, dim), torch.float32)
    expect(weight, "norm weight", (dim,), torch.bfloat16)
    for extra in (normed, summed):
        if extra is not None:
            expect(extra, "full-precision output", (rows, dim), torch.float32)
    params = _AddNormParams(
        pointer(x),
        _product(delta, rows * last_of, dim),
        pointer(weight),
        *_output(out, rows, dim),
        pointer(normed),
        pointer(summed),
        last_of,
        last_of - 1,
        dim,
        eps,
    )
    spec = KernelSpec("add_norm.cu", "add_norm", ADD_NORM_THREADS, _AddNormParams, _quads(dim, ADD_NORM_THREADS))
    kernels.launch(spec, (rows, 1, 1), params, shared_bytes=2 * REDUCE_SCRATCH_BYTES)


class _SwigluParams(Structure):
    _fields_ = [
        ("gate_up", _Product),
        *((name, c_void_p) for name in ("out_bf16", "out_fp8", "out_scale")),
        ("width", c_int),
    ]


def swiglu(kernels: Kernels, gate_up: Product, out: Activation) -> None:
    """gate_up [B, 2F], gates first -> out [B, F] = silu(gate) * up."""
    rows, width = out.values.shape[0], out.values.shape[-1]
    params = _SwigluParams(_product(gate_up, rows, 2 * width), *_output(out, rows, width), width)
    spec = KernelSpec("swiglu.cu", "swiglu", SWIGLU_THREADS, _SwigluParams, _quads(width, SWIGLU_THREADS))
    kernels.launch(spec, (rows, 1, 1), params, shared_bytes=REDUCE_SCRATCH_BYTES)


class _PrepareParams(Structure):
    _fields_ = [
        ("qkv", _Product),
        *((name, c_void_p) for name in ("q_norm", "k_norm", "rope", "row_slot", "row_position", "q")),
        *((name, c_void_p) for name in ("keys", "values")),
        *((name, c_int) for name in ("heads", "kv_heads", "context")),
        ("eps", c_float),
    ]


class _AttendParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("q", "keys", "values", "row_slot", "row_position", "partial", "stats")),
        *((name, c_int) for name in ("heads", "kv_heads", "context", "splits", "rows")),
        ("scale_log2", c_float),
    ]


class _CombineParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("partial", "stats", "out_bf16", "out_fp8", "out_scale")),
        *((name, c_int) for name in ("heads", "splits")),
    ]


def kv_define(keys: Tensor) -> tuple[str, int]:
    """What tells a kernel how keys and values stand in memory (csrc/common/kv_cache.cuh)."""
    return ("KF_KV_FP8", int(keys.dtype == torch.float8_e4m3fn))


def _attention_specs(head_dim: int, keys: Tensor, *, one_slot: bool) -> tuple[KernelSpec, KernelSpec, KernelSpec]:
    defines = (("KF_HEAD_DIM", head_dim), kv_define(keys))
    attend = "attention_attend_prompt" if one_slot else "attention_attend"
    return (
        KernelSpec("attention.cu", "attention_prepare", 256, _PrepareParams, defines),
        KernelSpec("attention.cu", attend, 32 * ATTEND_WARPS, _AttendParams, defines),
        KernelSpec("attention.cu", "attention_combine", COMBINE_THREADS, _CombineParams, defines),
    )


def attention_blocks(rows: int, heads: int, kv_heads: int, *, one_slot: bool) -> int:
    """Blocks that `attend` launches for each split of the keys."""
    rows_of_block = ATTEND_WARPS * (MAX_HEAD_GROUP // (heads // kv_heads)) if one_slot else 1
    return kv_heads * -(-rows // rows_of_block)


def attend(
    kernels: Kernels,
    qkv: Product,
    norms: tuple[Tensor, Tensor] | None,
    rope: Tensor,
    row_slot: Tensor,
    row_position: Tensor,
    keys: Tensor,
    values: Tensor,
    q: Tensor,
    partial: Tensor,
    stats: Tensor,
    out: Activation | None,
    *,
    eps: float,
    one_slot: bool = False,
) -> None:
    """Append each row's key and value to its slot, then attend to everything up to its position.

    `one_slot`: the rows are positions of the first row's slot, and share what they read; others' outputs mean nothing.
    qkv [B, (H+2G)*D]; keys bf16 or E4M3 [slots, G, S, D]; values likewise [slots, G, S/2, D, 2]; q scratch bf16
    [B, H, D]; partial fp32 [B, splits, H, D] and stats fp32 [B, splits, H, 2] scratch. `out` None: only append.
    """
    rows, heads, head_dim = q.shape
    slots, kv_heads, context, _ = keys.shape
    splits = partial.shape[1]
    if heads % kv_heads or heads // kv_heads > MAX_HEAD_GROUP:
        raise ValueError(f"{heads} heads over {kv_heads} kv heads: at most {MAX_HEAD_GROUP} to one are possible")
    cached = torch.float8_e4m3fn if keys.dtype == torch.float8_e4m3fn else torch.bfloat16
    expect(keys, "keys", (slots, kv_heads, context, head_dim), cached)
    expect(values, "values", (slots, kv_heads, context // 2, head_dim, 2), cached)
    expect(q, "q", (rows, heads, head_dim), torch.bfloat16)
    expect(partial, "partial", (rows, splits, heads, head_dim), torch.float32)
    expect(stats, "stats", (rows, splits, heads, 2), torch.float32)
    expect(rope, "rope", (rope.shape[0], head_dim // 2, 2), torch.float32)
    expect(row_slot, "row_slot", (rows,), torch.int32)
    expect(row_position, "row_position", (rows,), torch.int32)
    prepare_spec, attend_spec, combine_spec = _attention_specs(head_dim, keys, one_slot=one_slot)
    q_norm, k_norm = norms or (None, None)
    prepare = _PrepareParams(
        _product(qkv, rows, (heads + 2 * kv_heads) * head_dim),
        pointer(q_norm),
        pointer(k_norm),
        pointer(rope),
        pointer(row_slot),
        pointer(row_position),
        pointer(q),
        pointer(keys),
        pointer(values),
        heads,
        kv_heads,
        context,
        eps,
    )
    kernels.launch(prepare_spec, (rows, -(-(heads + 2 * kv_heads) // PREPARE_HEADS), 1), prepare)
    if out is None:
        return
    attend_params = _AttendParams(
        pointer(q),
        pointer(keys),
        pointer(values),
        pointer(row_slot),
        pointer(row_position),
        pointer(partial),
        pointer(stats),
        heads,
        kv_heads,
        context,
        splits,
        rows,
        LOG2_E / math.sqrt(head_dim),
    )
    shared_bytes = ATTEND_WARPS * MAX_HEAD_GROUP * (head_dim + 2) * 4
    row_blocks = attention_blocks(rows, heads, kv_heads, one_slot=one_slot) // kv_heads
    kernels.launch(attend_spec, (splits, kv_heads, row_blocks), attend_params, shared_bytes=shared_bytes)
    width = heads * head_dim
    combine = _CombineParams(pointer(partial), pointer(stats), *_output(out, rows, width), heads, splits)
    assert width <= 4 * COMBINE_THREADS, "one thread makes four values of a row"
    kernels.launch(combine_spec, (rows, 1, 1), combine, shared_bytes=REDUCE_SCRATCH_BYTES)
