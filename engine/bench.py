"""`kingfisher bench`: the engine alone, without sockets, encoders or a scheduler.

Every stream speaks one text after another in a warm slot. Prefills run on a thread of their own and decode never waits
for them, as in the server. Unpaced, steps follow each other at once: frames per second is what the engine can do.
Paced, a stream rests while its listener has enough: then what counts is whether anybody ran dry.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

from engine.api import (
    Audio,
    Engine,
    EngineError,
    Epoch,
    Prefill,
    PrefillResult,
    Sampling,
    SlotId,
    SlotRef,
    StepPlan,
    Ticket,
    Vocode,
)

__all__ = ["TEXTS", "Level", "measure", "run_bench"]

TEXTS = (
    "Thank you for calling, how can I help you today?",
    "Your appointment is on Tuesday at half past nine.",
    "I have found three flights that leave before noon.",
    "The package should arrive within two working days.",
    "Let me check that for you, it will only take a moment.",
    "Is there anything else that I can do for you?",
)

VOCODE_FRAMES = 4
"""Frames a codec call takes once a stream's first frame has left alone."""

LONGEST_S = 1.0
LONGEST_PER_CHAR_S = 0.14
"""A text is cut after `LONGEST_S` and this much per character: the guard against a model that never stops."""

PREFILL_TIMEOUT_S = 60.0


_COLUMNS = {
    "concurrency": "c",
    "frames": "frames",
    "frames_per_s": "per s",
    "rtf": "RTF",
    "prefill_p50_ms": "prefill",
    "prefill_max_ms": "max",
    "first_frame_p50_ms": "first",
    "first_frame_max_ms": "max",
    "decode_p50_ms": "decode",
    "vocode_p50_ms": "codec",
    "underruns": "late",
}


@dataclass(slots=True)
class Level:
    """What was measured at one concurrency."""

    concurrency: int
    utterances: int
    frames: int = 0
    wall_s: float = 0.0
    audio_s: float = 0.0
    prefill_ms: list[float] = field(default_factory=list)
    """Of each text, in a slot that held the voice already."""
    first_frame_ms: list[float] = field(default_factory=list)
    """From asking for the prefill to holding the first PCM."""
    decode_ms: list[float] = field(default_factory=list)
    vocode_ms: list[float] = field(default_factory=list)
    """Of each step that had such rows."""
    underruns: int = 0
    """Pieces of audio that came after the listener had played all before."""

    def figures(self) -> dict[str, Any]:
        """As plain data. `rtf` is wall time over the audio of one stream: below 1, every stream is real time."""
        return {
            "concurrency": self.concurrency,
            "utterances": self.utterances,
            "frames": self.frames,
            "frames_per_s": round(self.frames / self.wall_s, 1),
            "rtf": round(self.wall_s * self.concurrency / self.audio_s, 4) if self.audio_s else None,
            "prefill_p50_ms": _median(self.prefill_ms),
            "prefill_max_ms": round(max(self.prefill_ms), 2),
            "first_frame_p50_ms": _median(self.first_frame_ms),
            "first_frame_max_ms": round(max(self.first_frame_ms, default=0.0), 2),
            "decode_p50_ms": _median(self.decode_ms),
            "vocode_p50_ms": _median(self.vocode_ms),
            "underruns": self.underruns,
        }


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 2) if values else None


def run_bench(
    engine: Engine, concurrencies: Sequence[int], utterances: int, *, lead_s: float | None = None
) -> list[Level]:
    """Measure each concurrency that the slots allow, with `utterances` texts and at least one per stream. A table and,
    as the last line, one JSON document go to stdout; progress, and what was left out, to stderr."""
    levels, notes = [], Console(stderr=True)
    with Progress(console=notes, transient=True) as progress:
        for concurrency in concurrencies:
            if concurrency > engine.limits.slots:
                notes.print(f"{concurrency} streams need as many slots; there are {engine.limits.slots}")
                continue
            count = max(utterances, concurrency)
            task = progress.add_task(f"{concurrency} streams", total=count)
            levels.append(_Run(engine, concurrency, count, lead_s, partial(progress.advance, task)).level())
    figures = [level.figures() for level in levels]
    table = Table(
        *(Column(title, justify="right", no_wrap=True) for title in _COLUMNS.values()),
        box=None,
        caption="prefill, first frame, decode, codec: medians in ms",
    )
    for row in figures:
        table.add_row(*(str(row[key]) for key in _COLUMNS))
    out = Console()
    out.print(table)
    out.print(json.dumps({"lead_s": lead_s, "levels": figures}), soft_wrap=True, highlight=False)
    return levels


def measure(engine: Engine, concurrency: int, utterances: int, *, lead_s: float | None = None) -> Level:
    """`utterances` texts, `concurrency` at a time. With `lead_s`, a stream is decoded only while it is less than so far
    ahead of its playback. Raises ValueError for more streams than slots, EngineError for a fault."""
    return _Run(engine, concurrency, utterances, lead_s, lambda: None).level()


@dataclass(slots=True)
class _Stream:
    """A slot and the text it speaks now; the counts are frames of that text."""

    slot: SlotId
    epoch: Epoch
    asked_s: float = 0.0
    max_frames: int = 0
    prefill: Future[PrefillResult] | None = None
    submitted: int = 0
    vocoded: int = 0
    end: int | None = None
    heard: int = 0
    heard_since_s: float = 0.0
    last_step: int = 0

    @property
    def is_armed(self) -> bool:
        """Raises what the prefill raised."""
        return self.prefill is not None and self.prefill.done() and self.prefill.result().epoch == self.epoch

    @property
    def is_complete(self) -> bool:
        return self.end is not None and self.heard >= self.end

    def lead_s(self, now: float, frame_s: float) -> float:
        return self.heard * frame_s - (now - self.heard_since_s) if self.heard else 0.0


class _Run:
    """The decode thread's loop: plan, submit, collect the oldest."""

    def __init__(
        self,
        engine: Engine,
        concurrency: int,
        utterances: int,
        lead_s: float | None,
        on_utterance: Callable[[], None],
    ) -> None:
        if not 1 <= concurrency <= engine.limits.slots:
            raise ValueError(f"{concurrency} streams do not fit into {engine.limits.slots} slots")
        if utterances < concurrency:
            raise ValueError(f"{utterances} utterances are not one for each of {concurrency} streams")
        self._engine, self._limits = engine, engine.limits
        self._voice = next(iter(engine.voices.values()))
        self._lead_s, self._on_utterance = lead_s, on_utterance
        self._streams = [_Stream(SlotId(slot), Epoch(0)) for slot in range(concurrency)]
        self._left = utterances
        self._level = Level(concurrency, utterances)
        self._flying: deque[tuple[StepPlan, Ticket]] = deque()
        self._asked = self._step = self._collected = 0

    def level(self) -> Level:
        for stream in self._streams:
            self._engine.prefill(Prefill(stream.slot, self._next_epoch(), self._voice))
        began = time.perf_counter()
        with ThreadPoolExecutor(1, "bench-prefill") as prefills:
            while self._streams or self._flying:
                self._ask(prefills)
                self._turn()
        self._level.wall_s = time.perf_counter() - began
        self._level.audio_s = self._level.frames * self._limits.frame_s
        return self._level

    def _next_epoch(self) -> Epoch:
        self._asked += 1
        return Epoch(self._asked)

    def _ask(self, prefills: ThreadPoolExecutor) -> None:
        """Order the next text of every stream that is through with its last and that no submitted step names."""
        for index, stream in enumerate(self._streams):
            if stream.prefill is not None or stream.last_step > self._collected or not self._left:
                continue
            self._left -= 1
            text = TEXTS[self._asked % len(TEXTS)]
            longest_s = LONGEST_S + LONGEST_PER_CHAR_S * len(text)
            fresh = _Stream(stream.slot, self._next_epoch(), time.perf_counter())
            fresh.max_frames = math.ceil(longest_s / self._limits.frame_s)
            sampling = Sampling(seed=fresh.epoch)
            order = Prefill(stream.slot, fresh.epoch, self._voice, text, False, sampling, fresh.max_frames)
            fresh.prefill = prefills.submit(self._engine.prefill, order)
            self._streams[index] = fresh

    def _turn(self) -> None:
        plan = self._plan(time.perf_counter())
        if plan is not None:
            self._flying.append((plan, self._engine.submit(plan)))
        elif not self._flying:
            self._rest()
        if self._flying and (plan is None or len(self._flying) >= self._limits.steps_in_flight):
            self._collect()

    def _plan(self, now: float) -> StepPlan | None:
        decode, vocode = [], []
        for stream in self._streams:
            if not stream.is_armed:
                continue
            if self._may_decode(stream, now):
                decode.append(SlotRef(stream.slot, stream.epoch))
                stream.submitted += 1
                stream.last_step = self._step + 1
            if item := self._next_vocode(stream):
                vocode.append(item)
                stream.last_step = self._step + 1
        if not decode and not vocode:
            return None
        self._step += 1
        return StepPlan(self._step, tuple(decode), tuple(vocode))

    def _may_decode(self, stream: _Stream, now: float) -> bool:
        is_full = self._lead_s is not None and stream.lead_s(now, self._limits.frame_s) >= self._lead_s
        pending = stream.submitted - stream.vocoded
        return (
            stream.end is None
            and stream.submitted < stream.max_frames
            and pending < self._limits.max_pending_frames
            and not is_full
        )

    def _next_vocode(self, stream: _Stream) -> Vocode | None:
        last = stream.submitted if stream.end is None else stream.end
        pending = last - stream.vocoded
        width = 1 if stream.vocoded == 0 else min(VOCODE_FRAMES, self._limits.max_vocode_frames)
        no_more = stream.end is not None or stream.submitted == stream.max_frames
        if pending < 1 or (pending < width and not no_more):
            return None
        frames = min(pending, width)
        item = Vocode(stream.slot, stream.epoch, stream.vocoded, frames, reset=stream.vocoded == 0)
        stream.vocoded += frames
        return item

    def _collect(self) -> None:
        plan, ticket = self._flying.popleft()
        result = self._engine.collect(ticket)
        self._collected = plan.step
        if plan.decode:
            self._level.decode_ms.append(result.decode_s * 1000)
        if plan.vocode:
            self._level.vocode_ms.append(result.vocode_s * 1000)
        if result.faults:
            raise EngineError(result.faults[0].message)
        by_epoch = {stream.epoch: stream for stream in self._streams}
        for decoded in result.decoded:
            stream = by_epoch.get(decoded.epoch)
            if stream is not None and stream.end is None:
                if decoded.ended:
                    stream.end = decoded.frame
                elif decoded.frame + 1 == stream.max_frames:
                    stream.end = stream.max_frames
        now = time.perf_counter()
        for audio in result.audio:
            if (stream := by_epoch.get(audio.epoch)) is not None:
                self._hear(stream, audio, now)
        for stream in self._streams:
            if stream.prefill is not None and stream.is_complete:
                self._finish(stream)
        self._streams = [stream for stream in self._streams if stream.prefill is not None or self._left]

    def _hear(self, stream: _Stream, audio: Audio, now: float) -> None:
        frames = audio.frames if stream.end is None else min(audio.frames, stream.end - audio.first_frame)
        if frames < 1:
            return
        if stream.heard == 0:
            stream.heard_since_s = now
            self._level.first_frame_ms.append((now - stream.asked_s) * 1000)
        elif stream.lead_s(now, self._limits.frame_s) < 0:
            self._level.underruns += 1
            stream.heard_since_s = now - stream.heard * self._limits.frame_s  # the listener waited: play on from here
        stream.heard += frames
        self._level.frames += frames

    def _finish(self, stream: _Stream) -> None:
        assert stream.prefill is not None
        self._level.prefill_ms.append(stream.prefill.result().seconds * 1000)
        stream.prefill = None
        self._on_utterance()

    def _rest(self) -> None:
        """Nothing may run: wait for a prefill, or for a listener to have played some of its lead."""
        orders = [s.prefill for s in self._streams if s.prefill is not None and not s.prefill.done()]
        if orders:
            done = wait(orders, PREFILL_TIMEOUT_S, "FIRST_COMPLETED").done
            if not done:
                raise EngineError(f"a prefill took longer than {PREFILL_TIMEOUT_S:g} s")
            for order in done:
                order.result()  # raises what the prefill raised
        elif self._lead_s is not None:
            time.sleep(self._limits.frame_s / 4)
