"""Decode speed of the CUDA backend on `s2-pro-random`: frames/s by batch, with and without the codec.

    python -m loadtest.micro.step --precision bf16 fp8 --batches 1 4 16 64 128 --context 600

Greedy or not makes no difference to the work. Steps are pipelined as in the server: n+1 is submitted before n is
collected. The last line is one JSON object. Times: median, and 5th and 95th percentile, of windows of 10 steps.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import torch

from engine.cuda.load import make_random_backend
from engine.cuda.random_model import S2_PRO
from engine.gate.decode_speed import WINDOW_STEPS, measure, prepare

CODEBOOKS = S2_PRO.num_codebooks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", nargs="+", default=["bf16", "fp8"], choices=["bf16", "fp8"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16, 64, 128])
    parser.add_argument("--context", type=int, default=550)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--kv-cache", default="bf16", choices=["bf16", "fp8"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results: dict[str, object] = {"device": torch.cuda.get_device_name(), "context": options.context}
    for precision in options.precision:
        began = time.perf_counter()
        backend = make_random_backend(
            slots=max(options.batches),
            context_tokens=options.context + 2 * options.steps + 100,
            fp8=precision == "fp8",
            kv_fp8=options.kv_cache == "fp8",
        )
        torch.cuda.synchronize()
        ready_s = time.perf_counter() - began
        print(f"{precision}: ready in {ready_s:.1f} s, {torch.cuda.memory_allocated() / 2**30:.1f} GiB", flush=True)
        table = []
        for batch in options.batches:
            prefill_s = prepare(backend, batch, options.context, CODEBOOKS)
            measure(backend, batch, 2 * WINDOW_STEPS)
            prepare(backend, batch, options.context, CODEBOOKS)
            ar = asdict(measure(backend, batch, options.steps))
            prepare(backend, batch, options.context, CODEBOOKS)
            both = asdict(measure(backend, batch, options.steps, codec_every=2))
            table.append({"batch": batch, "prefill_ms": 1000 * prefill_s, "ar": ar, "ar_codec": both})
            print(
                f"  B={batch:4d}  AR {ar['step_ms']:7.3f} ms ({ar['step_ms_p5']:.3f}-{ar['step_ms_p95']:.3f})"
                f" {ar['frames_per_s']:8.0f} frames/s   +codec {both['step_ms']:7.3f} ms"
                f" {both['frames_per_s']:8.0f} frames/s   submit {ar['submit_ms']:.3f} ms"
                f"   prefill {options.context} tokens {1000 * prefill_s:.2f} ms",
                flush=True,
            )
        results[precision] = {"ready_s": ready_s, "table": table}
        backend.close()
        del backend
        torch.cuda.empty_cache()
    if options.out:
        options.out.write_text(json.dumps(results))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
