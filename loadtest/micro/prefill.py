"""What a prefill takes, on `s2-pro-random`: by tokens behind a prefix, and by the parts that attention splits keys in.

    python -m loadtest.micro.prefill --tokens 16 32 64 128 --splits 2 4 6 8 --out prefill.json

`wall` is what the prefill thread would wait if it waited for the device, `host` its own share of that, `graph` the
device's time for the captured work alone. Medians, in ms. The last line is one JSON object. Needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from engine.backends.cuda import PREFILL_BUCKETS, CudaBackend
from engine.cuda import frame
from engine.cuda.buckets import bucket_for
from engine.cuda.load import make_random_backend
from engine.cuda.random_model import S2_PRO
from engine.gate.decode_speed import prompt

RUNS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--prefix", type=int, default=400)
    parser.add_argument("--splits", nargs="*", type=int, default=[])
    parser.add_argument("--kv-cache", default="bf16", choices=["bf16", "fp8"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    backend = make_random_backend(slots=2, context_tokens=1280, fp8=True, kv_fp8=options.kv_cache == "fp8")
    backend.prefill(0, prompt(options.prefix, S2_PRO.num_codebooks, 1), 0)
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "prefix": options.prefix}
    for tokens in options.tokens:
        row: dict[str, Any] = _whole(backend, tokens, options.prefix)
        for splits in options.splits:
            with patch.object(frame, "_splits", lambda *_, one_slot, splits=splits: splits):
                row[f"graph, {splits} splits"] = _graph_ms(
                    backend, _capture(backend, bucket_for(PREFILL_BUCKETS, tokens))
                )
        results[str(tokens)] = row
        print(tokens, row, flush=True)
    backend.close()
    if options.out:
        options.out.write_text(json.dumps(results) + "\n")
    print(json.dumps(results))


def _whole(backend: CudaBackend, tokens: int, prefix: int) -> dict[str, float]:
    columns = prompt(tokens, S2_PRO.num_codebooks, 3)
    wall, host = [], []
    for _ in range(RUNS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        backend.prefill(0, columns, prefix)
        host.append(time.perf_counter() - began)
        torch.cuda.synchronize()
        wall.append(time.perf_counter() - began)
    graph = backend._prefill_graphs[bucket_for(PREFILL_BUCKETS, tokens)]
    return {
        "wall": 1000 * statistics.median(wall),
        "host": 1000 * statistics.median(host),
        "graph": _graph_ms(backend, graph),
    }


def _capture(backend: CudaBackend, rows: int) -> Callable[[], None]:
    """The same chunk, which lies on the device still, with other splits: its buffers differ in size."""
    buffers = frame.SlowBuffers.empty(S2_PRO.slow, rows, backend._device.torch_device, fp8=True, one_slot=True)
    buffers.row_slot.copy_(backend._prefill.row_slot[:rows])
    own, backend._prefill = backend._prefill, buffers
    try:
        with torch.inference_mode():
            return backend._device.capture(backend._prefill_stream, lambda: backend._run_prefill(rows))
    finally:
        backend._prefill = own


def _graph_ms(backend: CudaBackend, graph: Callable[[], None]) -> float:
    times = []
    with torch.inference_mode(), torch.cuda.stream(backend._prefill_stream):
        for _ in range(RUNS):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            first.record()
            graph()
            last.record()
            torch.cuda.synchronize()
            times.append(first.elapsed_time(last))
    return statistics.median(times)


if __name__ == "__main__":
    main()
