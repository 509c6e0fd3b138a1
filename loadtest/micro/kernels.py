"""Where a decode step's device time goes, by kernel, from torch's profiler over graph replays of `s2-pro-random`.

python -m loadtest.micro.kernels --batches 1 64
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from engine.cuda.load import make_random_backend
from engine.cuda.random_model import S2_PRO
from engine.gate.decode_speed import measure, prepare

STEPS = 30
NAME_WIDTH = 70


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--precision", default="fp8", choices=["bf16", "fp8"])
    parser.add_argument("--context", type=int, default=550)
    parser.add_argument("--codec-every", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    backend = make_random_backend(
        slots=max(options.batches), context_tokens=options.context + 200, fp8=options.precision == "fp8"
    )
    results = {}
    for batch in options.batches:
        prepare(backend, batch, options.context, S2_PRO.num_codebooks)
        measure(backend, batch, 20)
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as trace:
            measure(backend, batch, STEPS - 1, codec_every=options.codec_every)
            torch.cuda.synchronize()
        totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
        for event in trace.events():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                totals[event.name][0] += 1
                totals[event.name][1] += event.device_time
        rows = sorted(totals.items(), key=lambda item: -item[1][1])
        print(f"B={batch}: {sum(t for _, t in totals.values()) / STEPS:.0f} us of kernels per step")
        for name, (count, us) in rows[:24]:
            print(f"  {us / STEPS:8.1f} us  {count / STEPS:6.1f} x {us / count:7.2f} us  {name[:NAME_WIDTH]}")
        results[batch] = {name: {"count": c / STEPS, "us": t / STEPS} for name, (c, t) in rows}
    if options.out:
        options.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
