"""The codec's small kernels (csrc/codec.cu) as operations. R rows, F frames per row, C channels, T steps."""

from __future__ import annotations

from ctypes import Structure, c_float, c_int, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cuda.kernels import Kernels, KernelSpec
from engine.cuda.ops import REDUCE_SCRATCH_BYTES, expect, pointer

__all__ = [
    "MAX_PAST_LAYERS",
    "PLAN_FIELDS",
    "Past",
    "depthwise_norm",
    "load_past",
    "lookup",
    "norm",
    "samples",
    "save_past",
    "window_attention",
]

PLAN_FIELDS = 4
"""int32 per row: slot, first frame, frames, reset."""
MAX_PAST_LAYERS = 32


class _LookupParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("plan", "codes", "tables", "out")),
        *((name, c_int) for name in ("frames", "pending", "codebooks", "first_size", "other_size", "dim")),
    ]


LOOKUP = KernelSpec("codec.cu", "codec_lookup", 256, _LookupParams)


def lookup(kernels: Kernels, plan: Tensor, codes: Tensor, tables: Tensor, out: Tensor, sizes: tuple[int, ...]) -> None:
    """Sum of the K projected entries of each planned frame: codes int32 [S, P, K] -> out fp16 [R, F, C]."""
    rows, frames, dim = out.shape
    expect(plan, "plan", (rows, PLAN_FIELDS), torch.int32)
    expect(tables, "tables", (sum(sizes), dim), torch.float16)
    expect(out, "out", (rows, frames, dim), torch.float16)
    _, pending, codebooks = codes.shape
    assert len(sizes) == codebooks and len(set(sizes[1:])) <= 1, "residual codebooks share one size"
    params = _LookupParams(
        pointer(plan),
        pointer(codes),
        pointer(tables),
        pointer(out),
        frames,
        pending,
        codebooks,
        sizes[0],
        sizes[-1],
        dim,
    )
    kernels.launch(LOOKUP, (rows * frames, 1, 1), params)


class _Past(Structure):
    _fields_ = [("buffer", c_void_p), ("state", c_void_p), ("past_values", c_int), ("frame_values", c_int)]


class _PastParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("plan", "frames_done", "positions")),
        ("frames", c_int),
        ("layers", _Past * MAX_PAST_LAYERS),
    ]


LOAD_PAST = KernelSpec("codec.cu", "codec_load_past", 256, _PastParams)
SAVE_PAST = KernelSpec("codec.cu", "codec_save_past", 256, _PastParams)


@dataclass(frozen=True, slots=True)
class Past:
    """One layer that looks back: buffer fp16 [R, past + T, C], state fp16 [S, past, C]."""

    buffer: Tensor
    state: Tensor


def _past_params(plan: Tensor, frames_done: Tensor, positions: Tensor, frames: int, pasts: list[Past]) -> _PastParams:
    assert len(pasts) <= MAX_PAST_LAYERS, "more layers than the kernel's table holds"
    table = []
    for past in pasts:
        steps, channels = past.state.shape[1:]
        fresh = past.buffer.shape[1] - steps
        assert fresh % frames == 0 and steps * channels % 8 == 0 and channels * fresh // frames % 8 == 0, "past layout"
        assert past.buffer.shape[2] == channels and past.buffer.is_contiguous() and past.state.is_contiguous()
        table.append(_Past(pointer(past.buffer), pointer(past.state), steps * channels, fresh // frames * channels))
    layers = (_Past * MAX_PAST_LAYERS)(*table)
    return _PastParams(pointer(plan), pointer(frames_done), pointer(positions), frames, layers)


def load_past(
    kernels: Kernels, plan: Tensor, frames_done: Tensor, positions: Tensor, frames: int, pasts: list[Past]
) -> None:
    """Every stream's past to the head of every buffer (zeros, and position 0, for a row that resets)."""
    params = _past_params(plan, frames_done, positions, frames, pasts)
    kernels.launch(LOAD_PAST, (len(pasts), plan.shape[0], 1), params)


def save_past(
    kernels: Kernels, plan: Tensor, frames_done: Tensor, positions: Tensor, frames: int, pasts: list[Past]
) -> None:
    """The last steps that are real become the stream's past; its position moves on by as many frames."""
    params = _past_params(plan, frames_done, positions, frames, pasts)
    kernels.launch(SAVE_PAST, (len(pasts), plan.shape[0], 1), params)


class _NormParams(Structure):
    _fields_ = [*((name, c_void_p) for name in ("x", "weight", "out")), ("dim", c_int), ("eps", c_float)]


NORM = KernelSpec("codec.cu", "codec_norm", 128, _NormParams)


def norm(kernels: Kernels, x: Tensor, weight: Tensor, out: Tensor, eps: float) -> None:
    """RMSNorm of fp16 [R, F, C]."""
    rows, frames, dim = x.shape
    expect(x, "x", (rows, frames, dim), torch.float16)
    expect(out, "out", (rows, frames, dim), torch.float16)
    expect(weight, "weight", (dim,), torch.float32)
    params = _NormParams(pointer(x), pointer(weight), pointer(out), dim, eps)
    kernels.launch(NORM, (rows * frames, 1, 1), params, shared_bytes=REDUCE_SCRATCH_BYTES)


class _WindowParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("plan", "positions", "qkv", "inverse", "ring", "out")),
        *((name, c_int) for name in ("frames", "heads", "head_dim", "window", "ring_frames")),
        ("scale", c_float),
    ]


WINDOW_ATTENTION = KernelSpec("codec.cu", "codec_window_attention", 128, _WindowParams)


def window_attention(
    kernels: Kernels,
    plan: Tensor,
    positions: Tensor,
    qkv: Tensor,
    inverse: Tensor,
    ring: Tensor,
    out: Tensor,
    *,
    window: int,
) -> None:
    """qkv fp16 [R, F, 3*H*D] at each slot's position -> out fp16 [R, F, H*D].

    ring fp16 [S, 2, window + F at least, H, D]: the slots' keys (after RoPE) and values of this layer.
    """
    rows, frames, width = out.shape
    slots, _, ring_frames, heads, head_dim = ring.shape
    assert ring_frames >= window + frames, "the ring must hold the window beside the frames being written"
    assert width == heads * head_dim and head_dim <= 128
    expect(qkv, "qkv", (rows, frames, 3 * width), torch.float16)
    expect(out, "out", (rows, frames, width), torch.float16)
    expect(ring, "ring", (slots, 2, ring_frames, heads, head_dim), torch.float16)
    params = _WindowParams(
        pointer(plan),
        pointer(positions),
        pointer(qkv),
        pointer(inverse),
        pointer(ring),
        pointer(out),
        frames,
        heads,
        head_dim,
        window,
        ring_frames,
        head_dim**-0.5,
    )
    shared_bytes = 4 * (head_dim + window) + REDUCE_SCRATCH_BYTES
    kernels.launch(WINDOW_ATTENTION, (heads, rows, 1), params, shared_bytes=shared_bytes)


class _DepthwiseParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "weight", "bias", "norm_weight", "norm_bias", "out")),
        *((name, c_int) for name in ("steps", "channels", "taps")),
        ("eps", c_float),
    ]


DEPTHWISE_NORM = KernelSpec("codec.cu", "codec_depthwise_norm", 256, _DepthwiseParams)


def depthwise_norm(
    kernels: Kernels,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    out: Tensor,
    eps: float,
) -> None:
    """x fp16 [R, taps-1+T, C], weight fp32 [taps, C] -> LayerNorm of the depthwise convolution, fp16 [R, T, C]."""
    rows, steps, channels = out.shape
    taps = weight.shape[0]
    expect(x, "x", (rows, taps - 1 + steps, channels), torch.float16)
    expect(weight, "weight", (taps, channels), torch.float32)
    expect(out, "out", (rows, steps, channels), torch.float16)
    params = _DepthwiseParams(
        *(pointer(t) for t in (x, weight, bias, norm_weight, norm_bias, out)), steps, channels, taps, eps
    )
    shared_bytes = REDUCE_SCRATCH_BYTES + 4 * channels
    kernels.launch(DEPTHWISE_NORM, (rows * steps, 1, 1), params, shared_bytes=shared_bytes)


class _SamplesParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("plan", "frames_done", "x", "weight", "pcm")),
        *((name, c_int) for name in ("samples", "frame_samples", "channels", "taps")),
        ("bias", c_float),
    ]


SAMPLES = KernelSpec("codec.cu", "codec_samples", 128, _SamplesParams)


def samples(
    kernels: Kernels,
    plan: Tensor,
    frames_done: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: float,
    pcm: Tensor,
    *,
    frame_samples: int,
) -> None:
    """The last convolution, tanh, int16: x fp16 [R, taps-1+N, C] -> pcm int16 [R, N], zeros past the valid frames."""
    rows, count = pcm.shape
    taps, channels = weight.shape
    expect(x, "x", (rows, taps - 1 + count, channels), torch.float16)
    expect(weight, "weight", (taps, channels), torch.float32)
    expect(pcm, "pcm", (rows, count), torch.int16)
    params = _SamplesParams(
        pointer(plan),
        pointer(frames_done),
        pointer(x),
        pointer(weight),
        pointer(pcm),
        count,
        frame_samples,
        channels,
        taps,
        bias,
    )
    grid = (-(-count // SAMPLES.threads), rows, 1)
    kernels.launch(SAMPLES, grid, params, shared_bytes=4 * taps * channels)
