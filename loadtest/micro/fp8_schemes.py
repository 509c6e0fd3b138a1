"""The FP8 schemes against each other: what each costs in time on a GPU, and what in quality on a trained voice.

    python -m loadtest.micro.fp8_schemes speed --out speed.json        # needs a GPU; S2-Pro's products, weights cold
    python -m loadtest.micro.fp8_schemes quality --out quality.json    # a CPU is enough; rounding is emulated in fp32

*speed* times every kind of product for the four shapes of a layer. A captured graph holds R copies of the product over
R copies of the weight (at least 400 MB), so every weight comes from memory; the time is a replay's over R, the median
of 15. Making the activations' scales is not timed: kernels that run anyway do it on their way. Beside each time stand
two errors, relative L2: against the product of the very numbers that were multiplied (a wrong scale shows here) and
against the unrounded ones (what the format costs).

*quality* compares a model whose layers' products are rounded as each scheme rounds with the same model in bf16: greedy
frames that are equal from the start, and along the bf16 path the logits' KL divergence and top-1 agreement by codebook.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.cuda.device import CudaDevice
from engine.cuda.grouped_gemm import grouped_gemm, mx_gemm
from engine.cuda.kernels import Kernels
from engine.load import BUNDLED_VOICE
from engine.quant.formats import (
    GROUPS_128,
    MX_32,
    PER_ROW,
    PER_TENSOR,
    SQUARES_128,
    Grouping,
    Quantised,
    quantise,
)
from loadtest.micro.fp8_quality import measure_quality
from loadtest.micro.gemm import COLD_BYTES, READ_BANDWIDTH, SHAPES, timed

__all__ = ["KINDS", "Kind", "Timing", "measure_speed"]

Run = Callable[[Kernels, Any, Any, Tensor], None]
"""(kernels, x, weight, out): one product."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a product is computed. None for a side: it stays in bf16."""

    weights: Grouping | None
    activations: Grouping | None
    run: Run
    needs: str | None = None
    """An attribute of the kernels that must be true, or "cuda" for what only the library on a GPU has."""


@dataclass(frozen=True, slots=True)
class Timing:
    us: float
    share_of_floor: float
    """Reading the weights and scales once, over the time."""
    wrong: float
    lost: float


def _bf16(kernels: Kernels, x: Tensor, weight: Tensor, out: Tensor) -> None:
    torch.mm(x, weight.T, out=out)


def _library(kernels: Kernels, x: Quantised, weight: Quantised, out: Tensor) -> None:
    """cuBLASLt by way of torch, which tells the scheme by the scales' shapes and strides."""
    whole = x.grouping == PER_TENSOR
    scale_a = x.scale.T.contiguous().T if x.grouping == GROUPS_128 else x.scale  # groups of a column side by side
    torch._scaled_mm(
        x.values,
        weight.values.T,
        scale_a=x.scale[0, 0] if whole else scale_a,
        scale_b=weight.scale[0, 0] if whole else weight.scale.T,
        out_dtype=torch.bfloat16,
        use_fast_accum=x.grouping != GROUPS_128,
        out=out,
    )


KINDS: dict[str, Kind] = {
    "bf16": Kind(None, None, _bf16),
    "tensor": Kind(PER_TENSOR, PER_TENSOR, _library),
    "row-wise": Kind(PER_ROW, PER_ROW, _library),
    "w8a16": Kind(PER_ROW, None, grouped_gemm),
    "bsgemm": Kind(SQUARES_128, GROUPS_128, _library, needs="cuda"),
    "bsgemm a16": Kind(SQUARES_128, None, grouped_gemm),
    "mxfp8 a16": Kind(MX_32, None, grouped_gemm),
    "mxfp8": Kind(MX_32, MX_32, mx_gemm, needs="has_block_scales"),
}
"""Decode as it is, one scale per row that the next kernel applies, is "tensor" in time and "row-wise" in numbers."""


def can_run(kind: Kind, kernels: Kernels, device: torch.device) -> bool:
    if kind.needs is None:
        return True
    return device.type == kind.needs or bool(getattr(kernels, kind.needs, False))


def measure_speed(
    kernels: Kernels,
    device: torch.device,
    *,
    shapes: Mapping[str, tuple[int, int]],
    rows: Sequence[int],
    kinds: Sequence[str],
    time_us: Callable[[Callable[[], None]], float],
    cold_bytes: float,
) -> dict[str, dict[str, dict[int, Timing]]]:
    """[kind][shape][rows]; a kind that this device refuses is left out, and said so."""
    found: dict[str, dict[str, dict[int, Timing]]] = {}
    for name in kinds:
        kind = KINDS[name]
        if not can_run(kind, kernels, device):
            print(f"{name}: not on this device")
            continue
        found[name] = {}
        for shape, (n, k) in shapes.items():
            random = torch.Generator(device).manual_seed(n)
            exact = torch.randn(n, k, generator=random, device=device) / k**0.5
            stored = _rounded(exact, kind.weights)
            copies = max(1, round(cold_bytes / _bytes(stored)))
            weights = [stored, *(_copy(stored) for _ in range(copies - 1))]
            timings = found[name][shape] = {}
            for count in rows:
                x = torch.randn(count, k, generator=random, device=device)
                try:
                    timings[count] = _timing(kernels, kind, x, exact, weights, time_us)
                except RuntimeError as error:
                    print(f"{name} {shape} rows={count}: {str(error)[:120]}")
        for count in rows:
            cells = [timings[count] for timings in found[name].values() if count in timings]
            parts = "  ".join(f"{cell.us:7.2f}" for cell in cells)
            layer = sum(cell.us for cell in cells)
            wrong, lost = (max(errors, default=0.0) for errors in _errors(cells))
            print(
                f"{name:12s} M={count:4d} {parts}  layer {layer:7.2f} us  wrong {wrong:.1e}  lost {lost:.1e}",
                flush=True,
            )
    return found


def _errors(cells: Sequence[Timing]) -> tuple[list[float], list[float]]:
    return [cell.wrong for cell in cells], [cell.lost for cell in cells]


def _timing(
    kernels: Kernels,
    kind: Kind,
    x: Tensor,
    exact: Tensor,
    weights: Sequence[Tensor | Quantised],
    time_us: Callable[[Callable[[], None]], float],
) -> Timing:
    given = _rounded(x, kind.activations)
    out = torch.full((x.shape[0], exact.shape[0]), torch.nan, dtype=torch.bfloat16, device=x.device)

    def work() -> None:
        for weight in weights:
            kind.run(kernels, given, weight, out)

    us = time_us(work) / len(weights)
    multiplied = _plain(given) @ _plain(weights[0]).T
    floor_us = 1e6 * _bytes(weights[0]) / READ_BANDWIDTH
    return Timing(us, floor_us / us if us else 0.0, _distance(out, multiplied), _distance(out, x @ exact.T))


def _rounded(x: Tensor, grouping: Grouping | None) -> Tensor | Quantised:
    return x.to(torch.bfloat16) if grouping is None else quantise(x, grouping)


def _plain(x: Tensor | Quantised) -> Tensor:
    return x.dequantised() if isinstance(x, Quantised) else x.float()


def _copy(x: Tensor | Quantised) -> Tensor | Quantised:
    return Quantised(x.values.clone(), x.scale.clone(), x.grouping) if isinstance(x, Quantised) else x.clone()


def _bytes(x: Tensor | Quantised) -> int:
    return x.values.nbytes + x.scale.nbytes if isinstance(x, Quantised) else x.nbytes


def _distance(got: Tensor, exact: Tensor) -> float:
    return float((got.float() - exact).norm() / exact.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    speed = parts.add_parser("speed")
    speed.add_argument("--rows", nargs="+", type=int, default=[1, 4, 16, 32, 64, 128])
    speed.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    quality = parts.add_parser("quality")
    quality.add_argument("--model", type=Path, default=BUNDLED_VOICE)
    for part in (speed, quality):
        part.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: Any
    if options.part == "speed":
        device = CudaDevice()
        timings = measure_speed(
            device.kernels,
            device.torch_device,
            shapes=SHAPES,
            rows=options.rows,
            kinds=options.kinds,
            time_us=timed,
            cold_bytes=COLD_BYTES,
        )
        found = {
            kind: {shape: {rows: asdict(cell) for rows, cell in cells.items()} for shape, cells in shapes.items()}
            for kind, shapes in timings.items()
        }
    else:
        found = [asdict(row) for row in measure_quality(options.model)]
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
