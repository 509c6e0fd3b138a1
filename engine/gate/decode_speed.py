"""Decode speed of a CUDA backend: frames/s of the whole batch at a given context, alone or with the codec.

Steps are pipelined as in the server: n+1 is submitted before n is collected. Whether sampling is greedy makes no
difference to the work.
"""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch

from engine.api import Sampling
from engine.backends.base import VocodeRow
from engine.backends.cuda import CudaBackend

__all__ = ["Speed", "measure", "prepare", "prompt"]

WINDOW_STEPS = 10


@dataclass(frozen=True, slots=True)
class Speed:
    """Times are medians, and 5th and 95th percentiles, over windows of ten steps."""

    step_ms: float
    step_ms_p5: float
    step_ms_p95: float
    frames_per_s: float
    submit_ms: float
    """Host time of one submit."""


def prompt(tokens: int, codebooks: int, seed: int) -> np.ndarray:
    """Random text: int32 [1+K, T]."""
    columns = np.zeros((1 + codebooks, tokens), np.int32)
    columns[0] = np.random.default_rng(seed).integers(0, 150_000, tokens)
    return columns


def prepare(backend: CudaBackend, batch: int, context: int, codebooks: int) -> float:
    """Every slot of the batch at `context` tokens; returns the seconds of the last prefill."""
    seconds = 0.0
    for slot in range(batch):
        columns = prompt(context, codebooks, slot)
        torch.cuda.synchronize()
        began = time.perf_counter()
        backend.prefill(slot, columns[:, :-1], 0)
        backend.arm(slot, columns[:, -1], context - 1, Sampling(seed=slot))
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return seconds


def measure(backend: CudaBackend, batch: int, steps: int, *, codec_every: int = 0) -> Speed:
    """`codec_every` 0: the AR model alone; n: every n steps the codec takes n frames of every row."""
    slots, pending, marks, host = list(range(batch)), [], [], []
    for step in range(steps + 1):
        if step % WINDOW_STEPS == 0:
            marks.append(time.perf_counter())
        rows: list[VocodeRow] = []
        if codec_every and step % codec_every == codec_every - 1:
            first = step + 1 - codec_every
            rows = [VocodeRow(slot, first, codec_every, first == 0) for slot in slots]
        began = time.perf_counter()
        pending.append(backend.submit(slots, rows))
        host.append(time.perf_counter() - began)
        if len(pending) == backend.steps_in_flight:
            backend.collect(pending.pop(0))
    for ticket in pending:
        backend.collect(ticket)
    windows = sorted((b - a) / WINDOW_STEPS for a, b in list(itertools.pairwise(marks))[1:])
    median = statistics.median(windows)
    return Speed(
        step_ms=1000 * median,
        step_ms_p5=1000 * windows[len(windows) // 20],
        step_ms_p95=1000 * windows[-1 - len(windows) // 20],
        frames_per_s=batch / median,
        submit_ms=1000 * statistics.median(host),
    )
