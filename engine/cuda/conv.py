"""The convolution kernel (csrc/conv.cu) as an operation, and the choice of its tile.

Activations are fp16, time-major, one row per stream: `past` steps of what came before, then the chunk's steps.
Letters: R rows, T output steps of a row, C channels, N outputs.
"""

from __future__ import annotations

from ctypes import Structure, c_int, c_longlong, c_void_p
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from engine.cuda.kernels import Kernels, KernelSpec
from engine.cuda.ops import expect, pointer

__all__ = ["ConvActivation", "ConvWeight", "Grid", "Rows", "Tile", "Workspace", "choose_grid", "conv", "spec_of"]

MULTIPROCESSORS = 132
"""Blocks worth having at once; a hint, not a limit (H100 and H200 have that many)."""
MIN_K_TILES_PER_SPLIT = 4
MAX_SPLITS = 16
MAX_SPLIT_TILES = 1024
FLAG_BYTES = 16


class ConvActivation(IntEnum):
    """As in csrc/conv.cu."""

    NONE = 0
    GELU = 1
    SWIGLU = 2


@dataclass(frozen=True, slots=True)
class Tile:
    m: int
    n: int
    k: int
    stages: int
    warps_m: int
    warps_n: int
    warpgroups: bool = False
    """Hopper's products, four warps together; they need k = 64 and a warp for every 16 of m."""

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.m + self.n) * self.k * 2 + FLAG_BYTES


NARROW = Tile(16, 64, 64, 5, 1, 4)
SQUARE = Tile(64, 64, 64, 4, 2, 2)
WIDE = Tile(128, 128, 64, 3, 2, 4)
WIDE_96 = Tile(128, 96, 32, 4, 2, 2)
HOPPER_128 = Tile(128, 128, 64, 3, 8, 1, warpgroups=True)
HOPPER_96 = Tile(128, 96, 64, 4, 8, 1, warpgroups=True)
WIDE_ADVANTAGE = 1.05
"""Of WIDE over WIDE_96 where both fill the device (loadtest/LOG.md)."""
RESIDENT = 2
"""Blocks of the wide tiles on one multiprocessor."""


@dataclass(frozen=True, slots=True)
class Grid:
    tile: Tile
    tiles_n: int
    tiles_m: int
    splits: int


def choose_grid(m: int, n: int, k: int, *, warpgroups: bool) -> Grid:
    """For an m x n output with sums over k: the tile, and how many blocks share each tile's sum.

    `warpgroups`: the device has Hopper's products.
    """
    if m <= 16:
        tile = NARROW
    elif -(-m // 128) * -(-n // 128) < MULTIPROCESSORS // 2:
        tile = SQUARE
    else:
        wide, narrower = (HOPPER_128, HOPPER_96) if warpgroups else (WIDE, WIDE_96)
        tile = wide if WIDE_ADVANTAGE * _filled(wide, m, n) >= _filled(narrower, m, n) else narrower
    tiles_m, tiles_n, k_tiles = -(-m // tile.m), -(-n // tile.n), -(-k // tile.k)
    blocks, splits = tiles_m * tiles_n, 1
    if blocks < MULTIPROCESSORS:
        splits = max(1, min(k_tiles // MIN_K_TILES_PER_SPLIT, 2 * MULTIPROCESSORS // blocks, MAX_SPLITS))
    return Grid(tile, tiles_n, tiles_m, splits)


def _filled(tile: Tile, m: int, n: int) -> float:
    """Share of the multiply-adds done that are wanted: partial tiles and a partial last wave waste the rest."""
    blocks = -(-m // tile.m) * -(-n // tile.n)
    waves = -(-blocks // (RESIDENT * MULTIPROCESSORS))
    return m * n / (waves * RESIDENT * MULTIPROCESSORS * tile.m * tile.n)


@dataclass(frozen=True, slots=True)
class ConvWeight:
    """weight fp16 [N, taps * C], taps from old to new; bias fp32 [N] or None."""

    weight: Tensor
    bias: Tensor | None
    taps: int
    dilation: int = 1

    def __post_init__(self) -> None:
        if self.channels % 8 or self.outputs % 8:
            raise ValueError(f"channels {self.channels} and outputs {self.outputs} must be multiples of 8")

    @property
    def outputs(self) -> int:
        return self.weight.shape[0]

    @property
    def channels(self) -> int:
        return self.weight.shape[1] // self.taps

    @property
    def past(self) -> int:
        return (self.taps - 1) * self.dilation


@dataclass(frozen=True, slots=True)
class Rows:
    """fp16 [R, past + T, C]: where a row's new steps go, after its past."""

    values: Tensor
    past: int

    @property
    def row_values(self) -> int:
        return self.values.shape[1] * self.values.shape[2]

    @property
    def offset(self) -> int:
        return self.past * self.values.shape[2]


@dataclass(frozen=True, slots=True)
class Workspace:
    """parts fp32 [n] for split sums; arrivals int32 [MAX_SPLIT_TILES], zero between launches."""

    parts: Tensor
    arrivals: Tensor

    @classmethod
    def empty(cls, parts: int, device: torch.device) -> Workspace:
        arrivals = torch.zeros(MAX_SPLIT_TILES, dtype=torch.int32, device=device)
        return cls(torch.zeros(parts, device=device), arrivals)


class _ConvParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "weight", "bias", "residual", "residual_scale", "out", "out_snake")),
        *((name, c_void_p) for name in ("alpha", "parts", "arrivals")),
        *((name, c_longlong) for name in ("row_values", "residual_row_values", "out_row_values", "snake_row_values")),
        *((name, c_int) for name in ("residual_offset", "out_offset", "snake_offset")),
        *((name, c_int) for name in ("rows", "steps", "channels", "taps", "dilation", "outputs", "splits")),
        ("activation", c_int),
    ]


def spec_of(tile: Tile) -> KernelSpec:
    names = ("KF_BM", "KF_BN", "KF_BK", "KF_STAGES", "KF_WARPS_M", "KF_WARPS_N", "KF_WARPGROUPS")
    sizes = (tile.m, tile.n, tile.k, tile.stages, tile.warps_m, tile.warps_n, int(tile.warpgroups))
    return KernelSpec("conv.cu", "conv", tile.threads, _ConvParams, tuple(zip(names, sizes, strict=True)))


def conv(
    kernels: Kernels,
    x: Rows,
    weight: ConvWeight,
    workspace: Workspace,
    *,
    out: Rows | None = None,
    snake: tuple[Rows, Tensor] | None = None,
    residual: Rows | None = None,
    residual_scale: Tensor | None = None,
    activation: ConvActivation = ConvActivation.NONE,
    grid: Grid | None = None,
) -> None:
    """out = activation(conv(x) + bias), or residual + scale * (conv(x) + bias); snake = (rows, alpha fp32 [N]).

    x has exactly the weight's past before its T steps. An output of N values per step may be N / C' steps of C'
    channels (a transposed convolution); SwiGLU halves N, its gates and ups interleaved.
    """
    rows, length, channels = x.values.shape
    steps = length - weight.past
    assert x.past == weight.past, f"the input carries {x.past} steps of past, the weight looks back {weight.past}"
    expect(x.values, "x", (rows, length, weight.channels), torch.float16)
    expect(weight.weight, "weight", (weight.outputs, weight.taps * channels), torch.float16)
    made = weight.outputs // (2 if activation is ConvActivation.SWIGLU else 1)
    for target in filter(None, (out, snake[0] if snake else None, residual)):
        assert target.values.shape[0] == rows and target.row_values - target.offset == steps * made, "output shape"
        assert target.values.dtype == torch.float16 and target.values.is_contiguous(), "output layout"
    for vector in filter(lambda v: v is not None, (weight.bias, residual_scale, snake[1] if snake else None)):
        expect(vector, "per-output vector", (weight.outputs,), torch.float32)
    if grid is None:
        grid = choose_grid(rows * steps, weight.outputs, weight.taps * channels, warpgroups=kernels.has_warpgroups)
    if grid.splits > 1:
        assert grid.splits * rows * steps * weight.outputs <= workspace.parts.numel(), "workspace too small"
        assert grid.tiles_m * grid.tiles_n <= workspace.arrivals.numel(), "too many split tiles"
    params = _ConvParams(
        x=pointer(x.values),
        weight=pointer(weight.weight),
        bias=pointer(weight.bias),
        residual=pointer(residual.values) if residual else None,
        residual_scale=pointer(residual_scale),
        out=pointer(out.values) if out else None,
        out_snake=pointer(snake[0].values) if snake else None,
        alpha=pointer(snake[1]) if snake else None,
        parts=pointer(workspace.parts),
        arrivals=pointer(workspace.arrivals),
        row_values=x.row_values,
        residual_row_values=residual.row_values if residual else 0,
        out_row_values=out.row_values if out else 0,
        snake_row_values=snake[0].row_values if snake else 0,
        residual_offset=residual.offset if residual else 0,
        out_offset=out.offset if out else 0,
        snake_offset=snake[0].offset if snake else 0,
        rows=rows,
        steps=steps,
        channels=channels,
        taps=weight.taps,
        dilation=weight.dilation,
        outputs=weight.outputs,
        splits=grid.splits,
        activation=int(activation),
    )
    launch_grid = (grid.tiles_n, grid.tiles_m, grid.splits)
    kernels.launch(spec_of(grid.tile), launch_grid, params, shared_bytes=grid.tile.shared_bytes)
