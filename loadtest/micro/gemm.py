"""The matrix products of one layer, cold: bf16, FP8 per tensor, FP8 row-wise, by batch.

    python -m loadtest.micro.gemm

A captured graph holds R copies of the product over R copies of the weight (at least twice the L2), so every weight
comes from memory; the time is the replay's over R, median of 15 replays. Floor: weight bytes over the read bandwidth.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch

SHAPES = {"wqkv": (6144, 2560), "wo": (2560, 4096), "gate_up": (19456, 2560), "down": (2560, 9728)}
COLD_BYTES = 400e6
READ_BANDWIDTH = 4.37e12


def timed(work: Callable[[], object], repeats: int = 15) -> float:
    """Median microseconds of a captured `work`."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            work()
    times = []
    for _ in range(repeats + 2):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        graph.replay()
        ended.record()
        ended.synchronize()
        times.append(1000 * began.elapsed_time(ended))
    return statistics.median(times[2:])


def products(kind: str, rows: int, n: int, k: int, copies: int) -> Callable[[], None]:
    if kind == "bf16":
        x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
        weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
        out = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)

        def work() -> None:
            for weight in weights:
                torch.mm(x, weight.T, out=out)

        return work
    x8 = torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn)
    weights8 = [torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn) for _ in range(copies)]
    out = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
    if kind == "fp8_rowwise":
        scale_a, scale_b = torch.ones(rows, 1, device="cuda"), torch.ones(1, n, device="cuda")
    else:
        scale_a = scale_b = torch.ones((), device="cuda")
    fast = kind != "fp8_exact"

    def work8() -> None:
        for weight in weights8:
            torch._scaled_mm(
                x8,
                weight.T,
                scale_a=scale_a,
                scale_b=scale_b,
                out_dtype=torch.bfloat16,
                use_fast_accum=fast,
                out=out,
            )

    return work8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 4, 8, 16, 32, 64, 128, 256])
    parser.add_argument("--kinds", nargs="+", default=["bf16", "fp8", "fp8_exact", "fp8_rowwise"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results: dict[str, dict[str, dict[int, float]]] = {}
    for kind in options.kinds:
        results[kind] = {}
        for name, (n, k) in SHAPES.items():
            copies = max(2, int(COLD_BYTES / (n * k * (2 if kind == "bf16" else 1))))
            results[kind][name] = {}
            for rows in options.rows:
                try:
                    results[kind][name][rows] = timed(products(kind, rows, n, k, copies)) / copies
                except RuntimeError as error:
                    print(f"{kind} {name} rows={rows}: {str(error)[:120]}")
        for rows in options.rows:
            times = [results[kind][name].get(rows, float("nan")) for name in SHAPES]
            print(f"{kind:12s} M={rows:4d} " + "  ".join(f"{t:6.2f}" for t in times) + f"  layer {sum(times):6.2f} us")
    if options.out:
        options.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
