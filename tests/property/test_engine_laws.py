"""Laws of the engine over any schedule: which rows run together, and when, is nobody's business but the clock's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.api import Epoch, Pcm, Prefill, Sampling, SlotId, SlotRef, StepPlan, Vocode
from engine.load import load_engine
from engine.runner import Runner

SLOTS = 3
FRAMES = 6
MAX_WIDTH = 4

PCM_TOLERANCE = {"reference": 1, "native": 0}
"""int16 steps between chunkings: torch picks its sums by the width, the native codec's order is fixed."""

SCRIPTS = (
    ("ada", "Hello there.", Sampling(seed=1)),
    ("bob", "Something else!", Sampling(1.3, 0.95, 20, 2)),
    ("ada", "Bye.", Sampling(0.2, 0.5, 5, 3)),
    ("bob", "One, two, three and four.", Sampling(seed=3)),
)


@pytest.fixture(scope="module", params=["reference", "native"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(backend: str, tiny: Path) -> Iterator[Runner]:
    made = load_engine(tiny, backend=backend, slots=SLOTS)
    yield made
    made.close()


@dataclass
class Stream:
    """One script in one slot: what it has done, and the sound of it."""

    ref: SlotRef
    decoded: int = 0
    vocoded: int = 0
    sound: list[Pcm] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return self.vocoded == FRAMES


class Stage:
    """Runs streams on an engine; epochs and steps count on over examples, as in a long-lived server."""

    def __init__(self, engine: Runner) -> None:
        self.engine, self.count = engine, 0

    def begin(self, slot: int, script: int) -> Stream:
        voice, text, sampling = SCRIPTS[script]
        self.count += 1
        ref = SlotRef(SlotId(slot), Epoch(self.count))
        order = Prefill(ref.slot, ref.epoch, self.engine.voices[voice], text, False, sampling, FRAMES)
        self.engine.prefill(order)
        return Stream(ref)

    def step(self, streams: list[Stream], widths: list[int]) -> None:
        """One step: a frame for each stream that has some left, then up to its width into the codec (0: none)."""
        self.count += 1
        decode = [stream for stream in streams if stream.decoded < FRAMES]
        for stream in decode:
            stream.decoded += 1
        rows = []
        for stream, width in zip(streams, widths, strict=True):
            frames = min(width, stream.decoded - stream.vocoded)
            if frames:
                is_first = stream.vocoded == 0
                rows.append((stream, Vocode(stream.ref.slot, stream.ref.epoch, stream.vocoded, frames, is_first)))
                stream.vocoded += frames
        plan = StepPlan(self.count, tuple(s.ref for s in decode), tuple(row for _, row in rows))
        result = self.engine.collect(self.engine.submit(plan))
        for (stream, _), audio in zip(rows, result.audio, strict=True):
            stream.sound.append(audio.pcm)

    def alone(self, script: int) -> Pcm:
        stream = self.begin(0, script)
        while not stream.is_done:
            self.step([stream], [1])
        return np.concatenate(stream.sound)


@pytest.fixture(scope="module")
def alone(engine: Runner) -> list[Pcm]:
    """Each script by itself, frame by frame, in slot 0."""
    return [Stage(engine).alone(script) for script in range(len(SCRIPTS))]


@given(data=st.data())
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_stream_is_the_same_in_any_slot_company_order_and_chunking(
    backend: str, engine: Runner, alone: list[Pcm], data: st.DataObject
) -> None:
    """Streams start and finish at any time in slots used before, skip steps, and are vocoded in any widths."""
    stage = Stage(engine)
    queue = data.draw(st.lists(st.integers(0, len(SCRIPTS) - 1), min_size=2, max_size=4), label="scripts")
    running: dict[int, tuple[int, Stream]] = {}
    while queue or running:
        free = [slot for slot in range(SLOTS) if slot not in running]
        if queue and free and (not running or data.draw(st.booleans(), label="begin one")):
            slot = data.draw(st.sampled_from(free), label="slot")
            script = queue.pop(0)
            running[slot] = script, stage.begin(slot, script)
        chosen = data.draw(st.lists(st.sampled_from(sorted(running)), min_size=1, unique=True), label="step")
        widths = [data.draw(st.integers(0, MAX_WIDTH), label="width") for _ in chosen]
        stage.step([running[slot][1] for slot in chosen], widths)
        for slot in chosen:
            script, stream = running[slot]
            if stream.decoded == FRAMES and not stream.is_done:
                stage.step([stream], [MAX_WIDTH])
            if stream.is_done:
                sound = np.concatenate(stream.sound).astype(int)
                assert int(np.abs(sound - alone[script]).max()) <= PCM_TOLERANCE[backend]
                del running[slot]
