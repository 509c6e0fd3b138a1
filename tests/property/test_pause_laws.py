"""Laws of the silence at the edges of units: what may be cut, what never is, and what became of every sample."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.audio.pauses import AS_SPOKEN, LONGEST_MS, PRE_ROLL_MS, PauseLimiter, Pauses

RATE_HZ, FRAME = 24_000, 1_280
BLOCK_MS = FRAME / 8 / RATE_HZ * 1000
PRE_ROLL = RATE_HZ * PRE_ROLL_MS // 1000
LIMITS_MS = st.sampled_from([0.0, 80.0, 180.0, 380.0, 640.0])
PAUSES = st.builds(Pauses, LIMITS_MS, LIMITS_MS)

Pcm = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Unit:
    pauses: Pauses
    pcm: Pcm
    """Whole frames."""


@st.composite
def units(draw: st.DrawFn) -> list[Unit]:
    """Sound in whole blocks: each sample of it is another number of 100 or more, silence is room noise below 20."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    made = []
    next_sample = 100
    for pauses in draw(st.lists(PAUSES, min_size=1, max_size=4)):
        blocks = [
            is_loud
            for is_loud, count in draw(st.lists(st.tuples(st.booleans(), st.integers(1, 90)), min_size=1, max_size=5))
            for _ in range(count)
        ]
        blocks += [blocks[-1]] * (-len(blocks) % 8)
        pcm = rng.integers(-20, 20, len(blocks) * FRAME // 8).astype(np.int16)
        where = np.repeat(blocks, FRAME // 8)
        pcm[where] = 100 + (next_sample + np.arange(where.sum())) % 32_000
        next_sample += int(where.sum())
        made.append(Unit(pauses, pcm))
    return made


def limited(spoken: list[Unit], frames_a_call: int) -> list[Pcm]:
    """By unit, what is let out."""
    limiter = PauseLimiter(RATE_HZ, FRAME)
    out = []
    for unit in spoken:
        limiter.begin_unit(unit.pauses)
        size = frames_a_call * FRAME
        out.append(np.concatenate([limiter.push(unit.pcm[i : i + size]) for i in range(0, len(unit.pcm), size)]))
    return out


def sound(pcm: Pcm) -> Pcm:
    return pcm[pcm >= 100]


def silences(pcm: Pcm) -> list[int]:
    """Samples of the silences at the beginning (0 for none), between sounds, and at the end."""
    runs = [(is_loud, len(list(run))) for is_loud, run in groupby(pcm >= 100)]
    found = [length for is_loud, length in runs if not is_loud]
    return ([0] if runs and runs[0][0] else []) + found + ([0] if runs and runs[-1][0] else [])


@given(units(), st.integers(1, 8))
def test_how_the_frames_came_never_matters(spoken: list[Unit], frames_a_call: int) -> None:
    whole, parts = limited(spoken, 1), limited(spoken, frames_a_call)
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


@given(units())
def test_all_sound_comes_out_and_only_silence_is_cut(spoken: list[Unit]) -> None:
    for unit, out in zip(spoken, limited(spoken, 3), strict=True):
        assert np.array_equal(sound(out), sound(unit.pcm))


@given(units(), st.integers(1, 8))
def test_sound_is_out_as_soon_as_it_is_in(spoken: list[Unit], frames_a_call: int) -> None:
    limiter = PauseLimiter(RATE_HZ, FRAME)
    for unit in spoken:
        limiter.begin_unit(unit.pauses)
        for start in range(0, len(unit.pcm), frames_a_call * FRAME):
            pcm = unit.pcm[start : start + frames_a_call * FRAME]
            assert np.array_equal(sound(limiter.push(pcm)), sound(pcm))


@given(units())
def test_every_silence_has_the_length_that_its_place_allows(spoken: list[Unit]) -> None:
    """As it was inside a unit, and as it was at an edge unless the limit is shorter; but never without its pre-roll."""

    def samples(ms: float) -> int:
        return int(ms * RATE_HZ / 1000)

    expected, under_way, at_edge, after = [], 0, 0, 0
    """`at_edge`: the limit of the silence under way if it touches edges."""
    for unit in spoken:
        at_edge, after = max(at_edge, after, samples(unit.pauses.before_ms)), samples(unit.pauses.after_ms)
        limit = at_edge
        for is_loud, run in groupby(unit.pcm >= 100):
            if not is_loud:
                under_way += len(list(run))
                continue
            expected.append(min(under_way, max(limit, PRE_ROLL)))
            under_way, limit, at_edge = 0, samples(LONGEST_MS), 0
    last = after if len(sound(spoken[-1].pcm)) else at_edge
    out = np.concatenate(limited(spoken, 2))
    expected.append(min(under_way, max(0, last - PRE_ROLL)))
    assert [length for length in silences(out) if length] == [length for length in expected if length]


@given(units())
def test_a_unit_that_asks_for_silence_gets_it(spoken: list[Unit]) -> None:
    as_spoken = [Unit(AS_SPOKEN, unit.pcm) for unit in spoken]
    assert all(np.array_equal(a.pcm, b) for a, b in zip(as_spoken, limited(as_spoken, 2), strict=True))


@given(units(), st.integers(1, 8))
def test_the_place_of_every_sound_is_known_once_it_is_out(spoken: list[Unit], frames_a_call: int) -> None:
    limiter = PauseLimiter(RATE_HZ, FRAME)
    for unit in spoken:
        limiter.begin_unit(unit.pauses)
        size, out, last_s = frames_a_call * FRAME, np.zeros(0, np.int16), 0.0
        for start in range(0, len(unit.pcm), size):
            out = np.concatenate([out, limiter.push(unit.pcm[start : start + size])])
            for sample in range(0, min(start + size, len(unit.pcm)), FRAME // 16):
                at_s = limiter.place_s(sample)
                if unit.pcm[sample] >= 100:
                    assert at_s is not None
                    assert out[round(at_s * RATE_HZ)] == unit.pcm[sample]
                elif at_s is not None:
                    assert at_s * RATE_HZ <= len(out)
        known = [limiter.place_s(sample) for sample in range(0, len(unit.pcm), FRAME // 16)]
        for at_s in known:
            if at_s is not None:
                assert at_s >= last_s
                last_s = at_s


def seconds(level: int, seconds: float) -> Pcm:
    """As near as whole frames come to it."""
    return np.full(round(seconds * RATE_HZ / FRAME) * FRAME, level, np.int16)


def test_a_silence_over_several_edges_may_be_as_long_as_the_longest_of_them() -> None:
    sound, silence = seconds(5_000, 0.3), seconds(1, 0.7)
    first, empty, last = Unit(Pauses(0, 640), sound), Unit(Pauses(0, 0), silence), Unit(Pauses(0, 0), sound)
    assert silences(np.concatenate(limited([first, empty, last], 1))) == [0, 640 * RATE_HZ // 1000, 0]


def test_a_silence_inside_a_unit_ends_after_a_second() -> None:
    pcm = np.concatenate([seconds(5_000, 0.3), seconds(1, 3.0), seconds(5_000, 0.3)])
    (out,) = limited([Unit(Pauses(0, 380), pcm)], 4)
    assert silences(out) == [0, LONGEST_MS * RATE_HZ // 1000, 0]


@pytest.mark.parametrize("level", [1, 20, 50])
def test_a_cut_is_no_click(level: int) -> None:
    """The hardest case: the silence has another offset behind the cut than before it."""
    before, after = np.full(16 * FRAME, level, np.int16), np.full(16 * FRAME, -level, np.int16)
    loud = np.full(FRAME, 100, np.int16)
    first, second = limited(
        [Unit(Pauses(0, 180), np.concatenate([loud, before])), Unit(Pauses(0, 180), np.concatenate([after, loud]))], 1
    )
    joined = np.concatenate([first, second]).astype(int)
    steps = np.abs(np.diff(joined[np.abs(joined) < 100]))
    assert steps.max() <= 2 * level / (PRE_ROLL / 4) + 1


def test_a_quiet_voice_passes_whole() -> None:
    """A whisper 20 dB under the quietest speaker is still sound, down to the block in which it begins."""
    whisper = (np.random.default_rng(3).standard_normal(10 * FRAME) * 25).astype(np.int16)
    quiet = np.random.default_rng(4).integers(-12, 12, 20 * FRAME).astype(np.int16)
    limiter = PauseLimiter(RATE_HZ, FRAME)
    limiter.begin_unit(Pauses(0, 80))
    out = np.concatenate([limiter.push(quiet), limiter.push(whisper), limiter.push(quiet)])
    assert whisper.tobytes() in out.tobytes()
