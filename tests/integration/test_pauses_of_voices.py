"""Silence cut from speech: the quietest sounds of real voices stay, and a listener hears the same words."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from engine.api import Engine, Epoch, Prefill, Sampling, SlotId, SlotRef, StepPlan, Vocode
from engine.load import BUNDLED_VOICE, load_engine
from realtime.audio.pauses import QUIET_DBFS, PauseLimiter, Pauses
from tests.listening import recognise, words

FRAME, RATE_HZ = 1_280, 24_000
SHARPEST = Pauses(0.0, 80.0)
"""The least silence that any place leaves."""
WHISPERED = (
    "She sells fresh fish from the shop.",
    "Half of the staff is off.",
    "If she has the sixth, this is the fifth.",
    "He hopes his house is warm enough.",
)
"""Sentences that begin and end with the quietest sounds of English."""
SAMPLES = Path(__file__).parents[2] / "engine" / "assets" / "samples"

Pcm = npt.NDArray[np.int16]


def cut(pcm: Pcm, pauses: Pauses = SHARPEST) -> tuple[Pcm, Pcm]:
    """(what is let out of a unit, what is missing of it): int16 mono, whole frames."""
    limiter = PauseLimiter(RATE_HZ, FRAME)
    limiter.begin_unit(pauses)
    out = np.concatenate([limiter.push(pcm[i : i + FRAME]) for i in range(0, len(pcm), FRAME)])
    places = [limiter.place_s(sample) for sample in range(len(pcm))]
    is_out = np.array([place is not None for place in places])
    shown = [-1 if place is None else round(place * RATE_HZ) for place in places]
    # Samples that were cut share the place of the cut.
    is_out[:-1] &= np.array([a != b for a, b in pairwise(shown)])
    return out, pcm[~is_out]


@pytest.fixture(scope="module")
def units() -> dict[str, Pcm]:
    """What the bundled voices make of the sentences, straight from the engine."""
    engine = load_engine(BUNDLED_VOICE, slots=1)
    spoken = {
        f"{name} {number}": unit(engine, name, sentence, number)
        for name in engine.voices
        for number, sentence in enumerate(WHISPERED)
    }
    engine.close()
    return spoken


def unit(engine: Engine, voice: str, text: str, seed: int) -> Pcm:
    ref = SlotRef(SlotId(0), Epoch(seed))
    engine.prefill(Prefill(ref.slot, ref.epoch, engine.voices[voice], text, False, Sampling(seed=seed), 200))
    made: list[Pcm] = []
    for frame in range(200):
        plan = StepPlan(frame, (ref,), (Vocode(ref.slot, ref.epoch, frame, 1, frame == 0),))
        result = engine.collect(engine.submit(plan))
        if result.decoded[0].ended:
            break
        made.append(result.audio[0].pcm)
    return np.concatenate(made)


def share_lost(pcm: Pcm, missing: Pcm) -> float:
    """Of the energy."""
    return float(np.square(missing.astype(float)).sum() / np.square(pcm.astype(float)).sum())


def test_what_is_cut_of_a_voice_is_far_under_its_quietest_sound(units: dict[str, Pcm]) -> None:
    """Seen: peaks of 35 and less where speech reaches 14,000, and 50 dB less energy."""
    for name, pcm in units.items():
        out, missing = cut(pcm)
        assert len(missing) > 0.1 * RATE_HZ, f"{name}: there was silence to cut"
        assert len(out) == len(pcm) - len(missing)
        assert np.abs(missing.astype(int)).max() < 32_768 * 10 ** (QUIET_DBFS / 20)
        assert share_lost(pcm, missing) < 1e-4


def test_a_voice_ten_times_as_quiet_keeps_its_sound(units: dict[str, Pcm]) -> None:
    """Its "f" and "s" then lie near the level of silence. Seen: 40 dB less energy."""
    for pcm in units.values():
        quiet = (pcm / 10).astype(np.int16)
        out, missing = cut(quiet)
        assert np.abs(out.astype(int)).max() == np.abs(quiet.astype(int)).max()
        assert share_lost(quiet, missing) < 1e-3


@pytest.mark.asr
@pytest.mark.parametrize("name", ["teacher-willow-plain-06", "original-1"])
def test_the_words_of_a_clear_voice_are_heard_as_before(name: str) -> None:
    """Said twice, with the pause between at its shortest. Two real clips whose words a recogniser is sure of."""
    sound, rate_hz = soundfile.read(SAMPLES / f"{name}.opus", dtype="int16")
    assert rate_hz == RATE_HZ
    clip = sound[: len(sound) // FRAME * FRAME]
    limiter = PauseLimiter(RATE_HZ, FRAME)
    parts = []
    for _ in range(2):
        limiter.begin_unit(SHARPEST)
        parts.append(limiter.push(clip))
    before, after = np.concatenate([clip, clip]), np.concatenate(parts)
    assert len(after) < len(before) - RATE_HZ // 4
    heard_before, heard_after = (words(recognise(pcm.astype(np.float32) / 32_768, RATE_HZ)) for pcm in (before, after))
    assert heard_after == heard_before
    assert len(heard_after) > 6
