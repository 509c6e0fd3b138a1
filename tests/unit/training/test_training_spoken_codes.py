"""The corpus as codes on disk: what is loaded is what was saved, in as many bits as it needs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.training.bit_planes import from_planes, to_planes
from engine.training.spoken_codes import SpokenCodes, load_part, save_part


@given(st.lists(st.integers(0, 2**20)), st.sampled_from([np.int32, np.int64]))
def test_planes_hold_every_value(values: list[int], dtype: type[np.integer]) -> None:
    array = np.asarray(values, dtype)
    assert from_planes(to_planes(array), len(array)).tolist() == values


def test_a_value_takes_as_many_bits_as_the_greatest() -> None:
    assert to_planes(np.asarray([0, 1023] * 800, np.int16)).nbytes == 10 * 1600 // 8
    assert to_planes(np.asarray([0, 511] * 800, np.int16)).nbytes == 9 * 1600 // 8


def test_negative_values_are_refused() -> None:
    with pytest.raises(ValueError, match="-3 is negative"):
        to_planes(np.asarray([4, -3]))


@st.composite
def spoken(draw: st.DrawFn) -> SpokenCodes:
    """Any codes of 3 codebooks, of clips that may be empty."""
    clips = draw(st.integers(1, 6))
    lengths = np.asarray(draw(st.lists(st.integers(0, 30), min_size=clips, max_size=clips)))
    chance = np.random.default_rng(draw(st.integers(0, 1000)))
    tops = draw(st.tuples(*[st.integers(1, 1024)] * 3))
    codes = np.stack([chance.integers(0, top, lengths.sum()) for top in tops]).astype(np.int16)
    lines = chance.choice(100_000, clips, replace=False)
    longest_step = draw(st.sampled_from([1, 60, 255, 256, 2000]))
    durations = [chance.integers(1, longest_step + 1, chance.integers(1, 9)).astype(np.int16) for _ in range(clips)]
    return SpokenCodes(codes, np.cumsum(lengths) - lengths, lengths, lines, durations)


@given(spoken())
def test_codes_come_back_as_they_were(codes: SpokenCodes) -> None:
    with TemporaryDirectory() as folder:
        save_part(codes, Path(folder), {})
        again = load_part(Path(folder))
    for name in ("codes", "starts", "lengths", "lines"):
        mine, theirs = getattr(codes, name), getattr(again, name)
        assert np.array_equal(mine, theirs), name
        assert mine.dtype == theirs.dtype, name
    assert [steps.tolist() for steps in again.durations] == [steps.tolist() for steps in codes.durations]


def test_an_hour_takes_two_thirds_of_a_megabyte(tmp_path: Path) -> None:
    """18.75 frames a second of one code of 1024 and seven of 512, and what belongs to 1,200 clips of 46 phonemes."""
    chance = np.random.default_rng(1)
    frames = np.full(1200, 56)
    codes = np.concatenate([chance.integers(0, 1024, (1, 67_200)), chance.integers(0, 512, (7, 67_200))])
    durations = [chance.integers(1, 60, 46).astype(np.int16) for _ in frames]
    spoken = SpokenCodes(codes.astype(np.int16), np.cumsum(frames) - frames, frames, np.arange(1200) * 60, durations)
    save_part(spoken, tmp_path, {})
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 50e6 / 75
