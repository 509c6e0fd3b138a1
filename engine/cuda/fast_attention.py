"""The fast transformer's attention as an operation: a frame's few positions, all of a row in one block.

Letters: B rows, H heads, G kv heads, D head dim, K codebooks.
"""

from __future__ import annotations

import math
from ctypes import Structure, c_float, c_int, c_void_p

import torch
from torch import Tensor

from engine.cuda.kernels import Kernels, KernelSpec
from engine.cuda.ops import (
    LOG2_E,
    REDUCE_SCRATCH_BYTES,
    Activation,
    Product,
    _output,
    _Product,
    _product,
    expect,
    pointer,
)

__all__ = ["fast_attend"]


class _FastAttentionParams(Structure):
    _fields_ = [
        ("qkv", _Product),
        *((name, c_void_p) for name in ("q_norm", "k_norm", "rope", "keys", "values")),
        *((name, c_void_p) for name in ("out_bf16", "out_fp8", "out_scale")),
        *((name, c_int) for name in ("first", "tokens")),
        *((name, c_float) for name in ("eps", "scale_log2")),
    ]


def fast_attend(
    kernels: Kernels,
    qkv: Product,
    norms: tuple[Tensor, Tensor] | None,
    rope: Tensor,
    keys: Tensor,
    values: Tensor,
    out: Activation,
    *,
    heads: int,
    first: int,
    tokens: int,
    eps: float,
) -> None:
    """`tokens` positions from `first` on, per frame row: qkv [B*tokens, (H+2G)*D] -> out [B*tokens, H*D].

    keys, values bf16 [B, K, G, D]: this frame's cache of one layer.
    """
    rows, positions, kv_heads, head_dim = keys.shape
    width = heads * head_dim
    expect(keys, "keys", (rows, positions, kv_heads, head_dim), torch.bfloat16)
    expect(values, "values", (rows, positions, kv_heads, head_dim), torch.bfloat16)
    expect(rope, "rope", (positions, head_dim // 2, 2), torch.float32)
    names = ("KF_HEAD_DIM", "KF_GROUP", "KF_HEADS", "KF_POSITIONS")
    defines = tuple(zip(names, (head_dim, heads // kv_heads, heads, positions), strict=True))
    spec = KernelSpec("fast_attention.cu", "fast_attention", 32 * heads, _FastAttentionParams, defines)
    q_norm, k_norm = norms or (None, None)
    params = _FastAttentionParams(
        _product(qkv, rows * tokens, (heads + 2 * kv_heads) * head_dim),
        pointer(q_norm),
        pointer(k_norm),
        pointer(rope),
        pointer(keys),
        pointer(values),
        *_output(out, rows * tokens, width),
        first,
        tokens,
        eps,
        LOG2_E / math.sqrt(head_dim),
    )
    kernels.launch(spec, (rows * tokens, 1, 1), params, shared_bytes=REDUCE_SCRATCH_BYTES)
