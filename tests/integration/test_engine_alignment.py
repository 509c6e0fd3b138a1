"""Which character is being spoken: the backends agree, and the bundled voice tells the truth."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from engine.api import Epoch, Prefill, Sampling, SlotId, SlotRef, StepPlan
from engine.load import BUNDLED_VOICE, load_engine
from tests.tiny_model import CONFIG, write_tiny_model

TEXT = "Hello there, this is a test."
FRAMES = 24


def chars_spoken(folder: Path, backend: str, voice: str, text: str, frames: int, *, mates: int = 0) -> list[int | None]:
    """Of slot 0, beside mates that speak other texts."""
    engine = load_engine(folder, backend=backend, slots=1 + mates)
    refs = tuple(SlotRef(SlotId(slot), Epoch(1)) for slot in range(1 + mates))
    for ref in refs:
        said = text if ref.slot == 0 else f"Mate {ref.slot} says more than that."
        sampling = Sampling(seed=5, temperature=0.5)
        request = Prefill(ref.slot, ref.epoch, engine.voices[voice], said, sampling=sampling, max_frames=frames)
        engine.prefill(request)
    chars: list[int | None] = []
    for step in range(frames):
        decoded = engine.collect(engine.submit(StepPlan(step, refs))).decoded[0]
        if decoded.ended:
            break
        chars.append(decoded.char)
    engine.close()
    return chars


@pytest.fixture(scope="module")
def aligned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("aligned") / "model"
    return write_tiny_model(folder, config={**CONFIG, "alignment_layer": 1, "alignment_head": 1})


def test_native_looks_where_reference_looks_whatever_its_mates(aligned: Path) -> None:
    alone = chars_spoken(aligned, "native", "ada", TEXT, FRAMES)
    assert alone == chars_spoken(aligned, "reference", "ada", TEXT, FRAMES)
    assert alone == chars_spoken(aligned, "native", "ada", TEXT, FRAMES, mates=2)
    assert all(char is not None and 0 <= char < len(TEXT) for char in alone)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_model_without_such_a_head_tells_nothing(tmp_path: Path, backend: str) -> None:
    folder = write_tiny_model(tmp_path / "plain")
    assert set(chars_spoken(folder, backend, "ada", TEXT, FRAMES)) == {None}


def test_the_bundled_voice_goes_through_its_text_from_end_to_end() -> None:
    text = "The train to the city leaves at nine in the morning."
    chars = [char for char in chars_spoken(BUNDLED_VOICE, "native", "willow", text, 150) if char is not None]
    assert chars[0] <= 4
    assert chars[-1] >= len(text) - 4
    steps = [after - before for before, after in pairwise(chars)]
    assert min(steps) >= -3
    assert max(steps) <= 6
