"""The persistent frame kernel on `s2-pro-random`: time of a frame by batch and context, and its share of the floor.

    python -m loadtest.micro.frame

Floor: the weights of a frame (E4M3 layers, fp16 heads) and the slots' KV over the read bandwidth. Graph replays in a
row, median of 9 windows of 10.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from engine.api import Sampling
from engine.cuda.device import CudaDevice
from engine.cuda.frame_kernel import FrameKernel, Geometry, PackedWeights
from engine.cuda.quantised import DECODE_SCHEME, quantised_form
from engine.cuda.random_model import IM_END, S2_PRO, SEMANTIC_BEGIN, random_model
from engine.cuda.slot_state import KvPool, SlotState, arm
from engine.cuda.weights import ModelWeights
from loadtest.micro.gemm import READ_BANDWIDTH

WINDOW, WINDOWS = 10, 9
CONTEXTS = (64, 600, 2000)
POOL_TOKENS = 2400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", nargs="+", type=int, default=[2])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = CudaDevice()
    where, geometry = device.torch_device, Geometry(S2_PRO)
    tensors = quantised_form(S2_PRO, random_model(S2_PRO, where), DECODE_SCHEME)
    ids = {"semantic_begin": SEMANTIC_BEGIN, "im_end": IM_END}
    weights = ModelWeights.build(S2_PRO, tensors, context_tokens=POOL_TOKENS, device=where, **ids)
    packed = PackedWeights.build(geometry, tensors, **ids)
    state, kv = SlotState.fresh(S2_PRO, 4, where), KvPool.zeros(S2_PRO.slow, 5, POOL_TOKENS, where)
    kv.keys.normal_()
    kv.values.normal_()
    flags = torch.zeros(2, 4, dtype=torch.uint8, device=where)
    stream, results = device.stream(urgent=True), []
    token_bytes = 2 * 2 * S2_PRO.slow.layers * S2_PRO.slow.kv_width
    for in_flight, batch in itertools.product(options.in_flight, geometry.batches()):
        frame = FrameKernel(replace(geometry, in_flight=in_flight), packed, weights, kv, state)
        rows = torch.arange(batch, dtype=torch.int32, device=where)
        replay = device.capture(stream, partial(frame.run, device.kernels, rows, flags))
        for context in CONTEXTS:
            for slot in range(batch):
                arm(device.kernels, state, slot, np.zeros(11, np.int32), context, Sampling(seed=slot))
            times = []
            for _ in range(WINDOWS + 1):
                began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                began.record()
                for _ in range(WINDOW):
                    replay()
                ended.record()
                ended.synchronize()
                times.append(began.elapsed_time(ended) / WINDOW)
            ms = statistics.median(times[1:])
            read = packed.slow.numel() + 9 * packed.fast.numel() + batch * context * token_bytes
            floor = 1000 * read / READ_BANDWIDTH
            results.append({"in_flight": in_flight, "batch": batch, "context": context, "ms": ms, "floor_ms": floor})
            print(
                f"asked {in_flight} B={batch} context {context:5d}: {ms:.3f} ms, {1000 * batch / ms:7.0f} frames/s, "
                f"floor {floor:.3f} ms, share {100 * floor / ms:.0f} %",
                flush=True,
            )
    if options.out:
        options.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
