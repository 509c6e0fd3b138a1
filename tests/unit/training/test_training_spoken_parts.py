"""The corpus becomes codes part by part: each once, none that would not fit, all of one codec."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.codec.config import CodecConfig
from engine.training import speech, spoken_parts, teacher
from engine.training.__main__ import main
from engine.training.codec import CodecStretch, CodecTrainer, encoder_hash, load_codec
from engine.training.corpus import CorpusLine, write_corpus
from engine.training.speech import LABEL_SAMPLES, Speech
from engine.training.spoken_codes import SpokenCodes, load_codes
from engine.training.spoken_parts import speak_in_parts
from tests.tiny_model import CODEC, write_tiny_model

HOP = 2 * LABEL_SAMPLES
CPU = torch.device("cpu")
CORPUS = [CorpusLine(f"Line {number}.", "", [(0, 2)], "willow", "", 1.0) for number in range(23)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spoken_parts, "PART_LINES", 4)


class Machine:
    """A command after another on one machine, where a line takes a second of a clock of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.now = 0.0
        self.spoken: list[int] = []
        self.brought: list[int] = []
        self.dies_before: int | None = None

    def to_codes(self, lines: Sequence[CorpusLine], first: int) -> SpokenCodes:
        """Line n is n + 1 frames of the code n; the teacher leaves out every seventh, as those too long."""
        if first == self.dies_before:
            raise KeyboardInterrupt
        self.now += len(lines)
        numbers = [CORPUS.index(line) for line in lines if CORPUS.index(line) % 7]
        self.spoken += numbers
        lengths = np.asarray(numbers) + 1
        codes = np.repeat(np.asarray([numbers, numbers], np.int16), lengths, axis=1)
        durations = [np.full(number, 3, np.int16) for number in numbers]
        places = np.asarray([number - first for number in numbers])
        return SpokenCodes(codes, np.cumsum(lengths) - lengths, lengths, places, durations)

    def leave(self) -> None:
        self.brought.append(len(list(self.home.iterdir())))

    def command(self, wanted: range = range(23), *, limit: float = 1000, codec: str = "a") -> None:
        speak_in_parts(
            CORPUS,
            wanted,
            self.home,
            codec=codec,
            to_codes=self.to_codes,
            leave=self.leave,
            deadline=self.now + limit,
            clock=lambda: self.now,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "home")


def test_every_line_is_spoken_once_and_its_codes_are_its_own(machine: Machine) -> None:
    machine.command(range(2, 23))
    wanted = [number for number in range(2, 23) if number % 7]
    assert machine.spoken == wanted
    codes = load_codes(machine.home)
    assert codes.lines.tolist() == wanted
    for clip, number in enumerate(wanted):
        assert codes.clip(clip).tolist() == [[number] * (number + 1)] * 2
        assert codes.durations[clip].tolist() == [3] * number
    assert machine.brought == [1, 2, 3, 4, 5, 6]


def test_a_part_that_would_not_fit_is_left_to_the_next_command(machine: Machine) -> None:
    machine.command(limit=11)  # three parts take twelve seconds
    assert machine.now == 8
    machine.command(limit=11)  # and the next command knows how long they take
    assert machine.now == 16
    machine.command(limit=7)  # the last part has three lines
    assert machine.now == 23
    assert sorted(machine.spoken) == [number for number in range(23) if number % 7]


def test_a_command_that_dies_loses_the_part_at_work(machine: Machine) -> None:
    machine.dies_before = 8
    with pytest.raises(KeyboardInterrupt):
        machine.command()
    machine.dies_before = None
    machine.command()
    assert machine.spoken == [number for number in range(23) if number % 7]
    assert load_codes(machine.home).lines.tolist() == machine.spoken


def test_a_command_that_dies_while_it_writes_leaves_no_half_part(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(spoken_parts, "save_part", _killed)
        with pytest.raises(KeyboardInterrupt):
            machine.command()
    machine.command()
    assert load_codes(machine.home).lines.tolist() == [number for number in range(23) if number % 7]


def _killed(codes: SpokenCodes, folder: Path, facts: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / "shard-7.safetensors").write_bytes(b"half")
    raise KeyboardInterrupt


def test_what_an_earlier_command_kept_comes_home_first(machine: Machine) -> None:
    """It may have died before it brought it home, and this one may have no time for a part."""
    machine.command(limit=5)
    machine.brought.clear()
    machine.command(limit=0)
    assert machine.brought == [1]


def test_a_full_disk_stops_nothing(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        raise OSError("no space left")

    machine.leave = full  # type: ignore[method-assign]
    machine.command()
    assert len(load_codes(machine.home).lines) == 19
    assert "no space left" in capsys.readouterr().out


def test_codes_of_two_codecs_are_never_mixed(machine: Machine, tmp_path: Path) -> None:
    machine.command(range(8))
    with pytest.raises(ValueError, match="another codec"):
        machine.command(codec="b")
    other = Machine(tmp_path / "other")
    other.command(range(8, 12), codec="b")
    next(other.home.iterdir()).rename(machine.home / "part-000008-000012")
    with pytest.raises(ValueError, match="of different codecs"):
        load_codes(machine.home)


def test_no_line_counts_twice(machine: Machine, tmp_path: Path) -> None:
    machine.command(range(8))
    with pytest.raises(ValueError, match="none of the parts wanted"):
        machine.command(range(2, 10))
    other = Machine(tmp_path / "other")
    other.command(range(6, 10))
    next(other.home.iterdir()).rename(machine.home / "part-000006-000010")
    with pytest.raises(ValueError, match="the same line"):
        load_codes(machine.home)


def test_a_folder_without_parts_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_codes(tmp_path)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    codec = {**CODEC, "sample_rate": 24_000, "encoder_rates": [4, 4, 4, 5], "decoder_rates": [5, 4, 4, 4]}
    config = CodecConfig.read(write_tiny_model(tmp_path / "tiny", codec=codec))
    CodecTrainer(config, CodecStretch(60), CPU).save(tmp_path / "codec", {"steps": 0, "seconds": 0, "log": []})
    return tmp_path / "codec"


def test_the_codes_command(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two commands, of which the first has no time for the second part."""
    seeds = []

    def synthesise(_: object, lines: Sequence[CorpusLine], *, seed: int) -> Speech:
        seeds.append(seed)
        assert not torch.backends.cudnn.benchmark, "each length is a new shape"
        frames = torch.arange(2, 2 + len(lines))
        wave = torch.randint(-9000, 9000, (int(frames.sum()) * HOP,), generator=torch.Generator().manual_seed(seed))
        starts = (frames.cumsum(0) - frames) * HOP
        labels = torch.zeros(2 * int(frames.sum()), dtype=torch.uint8)
        return Speech(
            wave.to(torch.int16), labels, starts, frames * HOP, list(range(len(lines))), [[4, 4]] * len(lines)
        )

    monkeypatch.setattr(speech, "synthesise", synthesise)
    monkeypatch.setattr(teacher, "load_teacher", lambda *_: None)
    write_corpus(CORPUS, tmp_path / "corpus.xz")
    options = ["--data", str(tmp_path), "--codec", str(checkpoint), "--device", "cpu", "--first", "5", "--lines", "6"]
    options += ["--keep", str(tmp_path / "keep"), "--out", str(tmp_path / "out")]
    assert main(["codes", *options, "--limit", "0"]) == 0
    assert main(["codes", *options]) == 0
    assert len(set(seeds)) == len(seeds) == 2, "parts of the same lengths are not the same noise"
    with tarfile.open(tmp_path / "out" / "stretch.tar.0") as archive:
        archive.extractall(tmp_path / "home", filter="data")
    codes = load_codes(tmp_path / "home")
    assert codes.lines.tolist() == [5, 6, 7, 8, 9, 10]
    assert codes.lengths.tolist() == [2, 3, 4, 5, 2, 3]


def test_the_decoder_has_no_say_in_what_codes_mean(checkpoint: Path) -> None:
    model, _ = load_codec(checkpoint, CPU)
    before = encoder_hash(model)
    with torch.no_grad():
        model.decoder.model[-1].conv.bias.add_(1)
    assert encoder_hash(model) == before
    with torch.no_grad():
        model.encoder.block[0].conv.bias.add_(1)
    assert encoder_hash(model) != before
