"""Time the engine alone: no server, no sockets, as fast as it goes. Used by `kingfisher bench`."""

from __future__ import annotations

import statistics
import time
from collections import deque
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from engine.api import Engine, Epoch, Prefill, Sampling, SlotId, SlotRef, StepPlan, Vocode

__all__ = ["Level", "run_bench", "run_level"]

TEXT = "Thank you for waiting. Your order was confirmed this morning, and it will arrive on Friday."
MAX_FRAMES = 240


@dataclass(slots=True)
class Level:
    """What was seen at one concurrency. Times are seconds."""

    concurrency: int
    wall_s: float = 0.0
    frames: int = 0
    prefill_s: list[float] = field(default_factory=list)
    first_frame_s: list[float] = field(default_factory=list)
    """Prefill asked for -> first PCM."""
    decode_s: list[float] = field(default_factory=list)
    vocode_s: list[float] = field(default_factory=list)

    def real_time_factor(self, frame_s: float) -> float:
        """Wall time over audio time of all streams together: below 1 / concurrency each stream is real time."""
        return self.wall_s / (self.frames * frame_s) if self.frames else float("nan")


@dataclass(slots=True)
class _Row:
    ref: SlotRef
    asked_s: float
    frames: int = 0
    vocoded: int = 0


def run_level(engine: Engine, concurrency: int, utterances: int) -> Level:
    """`utterances` utterances, `concurrency` of them at a time, one frame per step and row."""
    level = Level(concurrency)
    voice = next(iter(engine.voices.values()))
    left, epoch, step = utterances, 0, 0
    rows: dict[SlotId, _Row] = {}
    flying: deque[object] = deque()
    began = time.perf_counter()
    while left or rows:
        for slot in map(SlotId, range(concurrency)):
            if left and slot not in rows and not flying:
                epoch += 1
                left -= 1
                asked_s = time.perf_counter()
                request = Prefill(slot, Epoch(epoch), voice, TEXT, sampling=Sampling(seed=epoch), max_frames=MAX_FRAMES)
                level.prefill_s.append(engine.prefill(request).seconds)
                rows[slot] = _Row(SlotRef(slot, Epoch(epoch)), asked_s)
        step += 1
        live = [row for row in rows.values() if row.frames < MAX_FRAMES]
        vocode = tuple(Vocode(r.ref.slot, r.ref.epoch, r.frames, 1, reset=r.frames == 0) for r in live)
        for row in live:
            row.frames += 1
        flying.append(engine.submit(StepPlan(step, tuple(row.ref for row in live), vocode)))
        if len(flying) >= engine.limits.steps_in_flight:
            _collect(engine, flying.popleft(), rows, level)
        if not any(row.frames < MAX_FRAMES for row in rows.values()) or (left and len(rows) < concurrency):
            while flying:  # a slot may be prefilled only when no step names it
                _collect(engine, flying.popleft(), rows, level)
    while flying:
        _collect(engine, flying.popleft(), rows, level)
    level.wall_s = time.perf_counter() - began
    return level


def _collect(engine: Engine, ticket: object, rows: dict[SlotId, _Row], level: Level) -> None:
    result = engine.collect(ticket)
    level.decode_s.append(result.decode_s)
    level.vocode_s.append(result.vocode_s)
    now = time.perf_counter()
    for decoded in result.decoded:
        row = rows.get(decoded.slot)
        if row is None or row.ref.epoch != decoded.epoch:
            continue
        if decoded.ended or decoded.frame + 1 == MAX_FRAMES:
            del rows[decoded.slot]
        if not decoded.ended:
            level.frames += 1
            if decoded.frame == 0:
                level.first_frame_s.append(now - row.asked_s)


def run_bench(engine: Engine, concurrencies: list[int], utterances: int) -> list[Level]:
    """Run every level with a progress bar on standard error and print a table."""
    frame_s = engine.limits.frame_s
    levels = []
    usable = [c for c in concurrencies if c <= engine.limits.slots]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("bench", total=len(usable))
        for concurrency in usable:
            progress.update(task, description=f"{concurrency} at once")
            levels.append(run_level(engine, concurrency, max(utterances, concurrency)))
            progress.advance(task)
    table = Table("c", "frames/s", "RTF", "RTF × c", "prefill ms", "first frame ms", "decode ms", "codec ms")
    for level in levels:
        rtf = level.real_time_factor(frame_s)
        medians = (level.prefill_s, level.first_frame_s, level.decode_s, level.vocode_s)
        table.add_row(
            str(level.concurrency),
            f"{level.frames / level.wall_s:.0f}",
            f"{rtf:.3f}",
            f"{rtf * level.concurrency:.3f}",
            *(f"{statistics.median(values) * 1000:.1f}" for values in medians),
        )
    Console().print(table)
    for skipped in sorted(set(concurrencies) - set(usable)):
        Console(stderr=True).print(f"c={skipped} needs --slots {skipped}")
    return levels
