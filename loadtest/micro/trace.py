"""Where a layer of the persistent frame kernel spends its time: clock at the landmarks of each step, block by block.

    python -m loadtest.micro.trace --batch 1

A build of the kernel with KF_TRACE stores the multiprocessor's clock. Shown: for the layers in the middle, the median
over blocks and layers of each interval in microseconds (at the clock that the run had).
"""

from __future__ import annotations

import argparse
import ctypes
from dataclasses import replace

import numpy as np
import torch

from engine.api import Sampling
from engine.cuda import frame_kernel
from engine.cuda.device import CudaDevice
from engine.cuda.frame_kernel import FrameKernel, Geometry, PackedWeights
from engine.cuda.kernels import KernelSpec
from engine.cuda.quantised import DECODE_SCHEME, quantised_form
from engine.cuda.random_model import IM_END, S2_PRO, SEMANTIC_BEGIN, random_model
from engine.cuda.slot_state import KvPool, SlotState, arm
from engine.cuda.weights import ModelWeights

MARKS = 16384
CONTEXT = 600
SLOW_NAMES = (
    *("qkv enter", "qkv loaded", "qkv chunks", "qkv joined", "qkv stored"),
    *("prepared", "attended"),
    *("out enter", "out loaded", "out chunks", "out joined", "out stored"),
    *("gate enter", "gate loaded"),
    *(f"gate {n} {part}" for part in range(4) for n in ("chunks", "joined", "stored")),
    *("down enter", "down loaded", "down chunks", "down 2 enter", "down 2 loaded", "down 2 chunks"),
    *("down joined", "down stored"),
)


class TracedParams(ctypes.Structure):
    _fields_ = [*frame_kernel._FrameParams._fields_, ("trace", ctypes.c_void_p)]


class TracingKernels:
    """Launches the traced build in place of the plain one."""

    def __init__(self, kernels, trace: torch.Tensor) -> None:
        self._kernels, self._trace = kernels, trace

    def launch(self, spec, grid, params, *, shared_bytes=0, cooperative=False) -> None:
        traced = TracedParams()
        ctypes.memmove(ctypes.byref(traced), ctypes.byref(params), ctypes.sizeof(params))
        traced.trace = self._trace.data_ptr()
        defines = (*spec.defines, ("KF_TRACE", MARKS))
        spec = KernelSpec(spec.source, spec.name, spec.threads, TracedParams, defines)
        self._kernels.launch(spec, grid, traced, shared_bytes=shared_bytes, cooperative=cooperative)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=3)
    options = parser.parse_args()
    device = CudaDevice()
    where = device.torch_device
    tensors = quantised_form(S2_PRO, random_model(S2_PRO, where), DECODE_SCHEME)
    geometry = replace(Geometry(S2_PRO), in_flight=options.in_flight)
    ids = {"semantic_begin": SEMANTIC_BEGIN, "im_end": IM_END}
    weights = ModelWeights.build(S2_PRO, tensors, context_tokens=CONTEXT + 100, device=where, **ids)
    packed = PackedWeights.build(geometry, tensors, **ids)
    state, kv = SlotState.fresh(S2_PRO, 4, where), KvPool.zeros(S2_PRO.slow, 5, CONTEXT + 100, where)
    for slot in range(options.batch):
        arm(device.kernels, state, slot, np.zeros(11, np.int32), CONTEXT, Sampling(seed=slot))
    trace = torch.zeros(geometry.blocks, MARKS, dtype=torch.int64, device=where)
    frame = FrameKernel(geometry, packed, weights, kv, state)
    rows = torch.arange(options.batch, dtype=torch.int32, device=where)
    flags = torch.zeros(2, 4, dtype=torch.uint8, device=where)
    for _ in range(20):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        frame.run(TracingKernels(device.kernels, trace), rows, flags)
        ended.record()
        ended.synchronize()
    ms = began.elapsed_time(ended)
    clocks = trace.cpu().numpy().astype(np.float64)
    used = int((clocks[0] > 0).sum())
    hz = np.median(clocks[:, used - 1] - clocks[:, 0]) / (ms / 1000)
    print(f"frame {ms:.3f} ms, {used} marks, about {hz / 1e9:.2f} GHz")
    per_layer = len(SLOW_NAMES)
    layers = clocks[:, : 36 * per_layer].reshape(geometry.blocks, 36, per_layer)[:, 5:35]
    following = np.concatenate([layers[:, 1:, :1], layers[:, 1:, :1] * np.nan], axis=2)[:, :, :1]
    steps = np.diff(layers[:, :-1], axis=2, append=following) / hz * 1e6
    total = np.median(layers[:, 1:, 0] - layers[:, :-1, 0]) / hz * 1e6
    print(f"a slow layer: {total:.1f} us")
    for name, step in zip((*SLOW_NAMES[1:], "next layer"), np.moveaxis(steps, 2, 0), strict=True):
        print(
            f" {name:12s} {np.median(step):6.2f} us  (5-95: {np.percentile(step, 5):.2f}-{np.percentile(step, 95):.2f})"
        )


if __name__ == "__main__":
    main()
