"""Products with E4M3 weights whose groups share scales (csrc/grouped_gemm.cu, csrc/mx_gemm.cu) as operations.

Weights and scales are as a checkpoint holds them (`engine.quant.formats`). Letters: B rows, N outputs, K inputs.
"""

from __future__ import annotations

from ctypes import Structure, c_int, c_void_p

import torch
from torch import Tensor

from engine.cuda.kernels import Kernels, KernelSpec
from engine.cuda.ops import expect, pointer
from engine.quant.formats import MX_32, LayoutError, Quantised

__all__ = ["grouped_gemm", "mx_gemm", "mx_quantise"]

WARPS, ROWS, GROUP = 8, 16, 32
"""As in csrc/common/small_gemm.cuh: outputs of a block, and values along K that a warp takes at a time."""
THREADS = 32 * WARPS
TILE_COUNTS = (1, 2, 4, 8)
"""Of eight tokens each, that a block makes at once."""


class _GroupedGemmParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "weights", "scale", "out")),
        *((name, c_int) for name in ("tokens", "outputs", "k", "group_rows", "group_columns", "power_of_two")),
    ]


class _MxQuantiseParams(Structure):
    _fields_ = [*((name, c_void_p) for name in ("x", "out", "scale")), ("values", c_int)]


class _MxGemmParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "x_scale", "weights", "scale", "out")),
        *((name, c_int) for name in ("tokens", "outputs", "k")),
    ]


def grouped_gemm(kernels: Kernels, x: Tensor, weight: Quantised, out: Tensor) -> None:
    """x bf16 [B, K], weight [N, K] -> out bf16 [B, N], scales applied. Raises LayoutError where N is no multiple of 16,
    or the groups along K of 32."""
    rows, (outputs, width) = x.shape[0], weight.shape
    group_rows = weight.grouping.rows or outputs
    group_columns = weight.grouping.columns or width
    _check_sizes(outputs, group_columns)
    expect(x, "x", (rows, width), torch.bfloat16)
    expect(out, "out", (rows, outputs), torch.bfloat16)
    params = _GroupedGemmParams(
        pointer(x),
        pointer(weight.values),
        pointer(weight.scale),
        pointer(out),
        rows,
        outputs,
        width,
        group_rows,
        group_columns,
        int(weight.grouping.power_of_two),
    )
    tiles = _tiles(rows)
    spec = KernelSpec("grouped_gemm.cu", "grouped_gemm", THREADS, _GroupedGemmParams, (("KF_TOKEN_TILES", tiles),))
    kernels.launch(spec, _grid(rows, outputs, tiles), params, shared_bytes=_shared_bytes(tiles))


def mx_quantise(kernels: Kernels, x: Tensor, out: Quantised) -> None:
    """x bf16 [B, K] -> out [B, K] in 1 x 32 groups, the very numbers of `engine.quant.formats.quantise`."""
    if out.grouping != MX_32:
        raise LayoutError(f"the kernel makes groups of 1 x 32 with powers of two, not {out.grouping}")
    expect(x, "x", out.shape, torch.bfloat16)
    params = _MxQuantiseParams(pointer(x), pointer(out.values), pointer(out.scale), x.numel())
    spec = KernelSpec("mx_gemm.cu", "mx_quantise", THREADS, _MxQuantiseParams, (("KF_TOKEN_TILES", 1),))
    kernels.launch(spec, (-(-x.numel() // (8 * THREADS)), 1, 1), params)


def mx_gemm(kernels: Kernels, x: Quantised, weight: Quantised, out: Tensor) -> None:
    """x [B, K] and weight [N, K], both in 1 x 32 groups -> out bf16 [B, N]. For sm_120a alone."""
    rows, (outputs, width) = x.shape[0], weight.shape
    if x.grouping != MX_32 or weight.grouping != MX_32 or x.shape[1] != width:
        raise LayoutError(
            f"{list(x.shape)} in {x.grouping} and {list(weight.shape)} in {weight.grouping} do not multiply"
        )
    _check_sizes(outputs, GROUP)
    expect(out, "out", (rows, outputs), torch.bfloat16)
    parts = (x.values, x.scale, weight.values, weight.scale, out)
    params = _MxGemmParams(*(pointer(part) for part in parts), rows, outputs, width)
    tiles = _tiles(rows)
    spec = KernelSpec("mx_gemm.cu", "mx_gemm", THREADS, _MxGemmParams, (("KF_TOKEN_TILES", tiles),))
    kernels.launch(spec, _grid(rows, outputs, tiles), params, shared_bytes=_shared_bytes(tiles))


def _check_sizes(outputs: int, group_columns: int) -> None:
    if outputs % ROWS or group_columns % GROUP:
        raise LayoutError(
            f"{outputs} outputs in groups of {group_columns} values: the kernel wants multiples of 16 and 32"
        )


def _tiles(rows: int) -> int:
    return next((tiles for tiles in TILE_COUNTS if 8 * tiles >= rows), TILE_COUNTS[-1])


def _grid(rows: int, outputs: int, tiles: int) -> tuple[int, int, int]:
    return outputs // ROWS, -(-rows // (8 * tiles)), 1


def _shared_bytes(tiles: int) -> int:
    return 4 * WARPS * ROWS * 8 * tiles
