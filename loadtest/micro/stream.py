"""Weight streaming by one persistent kernel: bandwidth by blocks, chunk size and layout, and the price of barriers.

    python -m loadtest.micro.stream

Reads 2 GiB per run; median of 9. `barrier us` is the extra time per barrier against the run without any.
"""

from __future__ import annotations

import argparse
import json
import statistics
from ctypes import Structure, c_int, c_longlong, c_void_p
from pathlib import Path

import torch

from engine.cuda.device import CudaDevice
from engine.cuda.kernels import Kernels, KernelSpec

BYTES = 2 << 30
SOURCE = "../loadtest/micro/stream.cu"


class Params(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weights", "counter", "sink")),
        *((name, c_longlong) for name in ("block_stride", "chunk_stride")),
        *((name, c_int) for name in ("chunks", "phase_chunks")),
    ]


def spec(chunk: int, stages: int, in_flight: int) -> KernelSpec:
    defines = (("KF_CHUNK", chunk), ("KF_STAGES", stages), ("KF_IN_FLIGHT", in_flight))
    return KernelSpec(SOURCE, "stream_weights", 288, Params, defines)


def launch(
    kernels: Kernels,
    weights: torch.Tensor,
    counter: torch.Tensor,
    *,
    blocks: int,
    chunk: int,
    stages: int,
    in_flight: int,
    contiguous: bool,
    phase_bytes: int,
) -> int:
    """Returns the number of barriers."""
    chunks = weights.numel() // blocks // chunk
    strides = (chunks * chunk, chunk) if contiguous else (chunk, blocks * chunk)
    phase = phase_bytes // blocks // chunk if phase_bytes else 0
    params = Params(weights.data_ptr(), counter.data_ptr(), counter.data_ptr() + 4, *strides, chunks, phase)
    kernels.launch(
        spec(chunk, stages, in_flight), (blocks, 1, 1), params, shared_bytes=stages * (chunk + 16), cooperative=True
    )
    return chunks // phase if phase else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    kernels = CudaDevice().kernels
    weights = torch.randint(0, 255, (BYTES,), dtype=torch.uint8, device="cuda")
    counter = torch.zeros(2, dtype=torch.int32, device="cuda")
    results = []
    for blocks, chunk, stages, in_flight, contiguous in (
        (128, 16384, 12, 12, True),
        (128, 16384, 12, 4, True),
        (128, 16384, 12, 3, True),
        (128, 16384, 12, 2, True),
        (128, 8192, 24, 6, True),
        (128, 8192, 24, 4, True),
        (128, 20480, 8, 2, True),
        (132, 16384, 12, 3, False),
    ):
        plain = 0.0
        for phase_bytes in (0, 50 << 20, 25 << 20, 10 << 20, 4 << 20):
            times = []
            barriers = 0
            for _ in range(9):
                counter.zero_()
                began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                began.record()
                barriers = launch(
                    kernels,
                    weights,
                    counter,
                    blocks=blocks,
                    chunk=chunk,
                    stages=stages,
                    in_flight=in_flight,
                    contiguous=contiguous,
                    phase_bytes=phase_bytes,
                )
                ended.record()
                ended.synchronize()
                times.append(1000 * began.elapsed_time(ended))
            us = statistics.median(times)
            plain = plain or us
            extra = (us - plain) / barriers if barriers else 0.0
            results.append(
                {
                    "blocks": blocks,
                    "chunk": chunk,
                    "stages": stages,
                    "in_flight": in_flight,
                    "contiguous": contiguous,
                    "phase": phase_bytes,
                }
                | {"us": us, "barrier_us": extra}
            )
            print(
                f"blocks {blocks:3d} chunk {chunk:5d} x{stages:2d} ask {in_flight:2d} {'own' if contiguous else 'mix'} "
                f"phase {phase_bytes >> 20:3d} MB: {BYTES / us / 1e6:5.2f} TB/s  barrier {extra:5.2f} us",
                flush=True,
            )
    if options.out:
        options.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
