"""A stretch on a lent machine: it ends in time, leaves something each minute, and goes on where it was."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.training import stretch
from engine.training.__main__ import main
from engine.training.checkpoint import load_checkpoint, save_checkpoint, save_whole
from engine.training.clips import read_clips, unpack_samples
from engine.training.corpus import CorpusLine, write_corpus
from engine.training.speech import LABEL_SAMPLES, Speech
from engine.training.stretch import bring_home, kept_speech, train_in_slices
from tests.tiny_model import CODEC

HOP = 2 * LABEL_SAMPLES


class Run:
    """Training whose steps take ten seconds of a clock of its own."""

    def __init__(self, stretch_s: float) -> None:
        self.now = self.done = 0.0
        self.stretch_s = stretch_s
        self.left: list[float] = []

    def train(self, until_s: float) -> dict[str, Any]:
        while self.done < min(until_s, self.stretch_s):
            self.now += 10
            self.done += 10
        return {"seconds": self.done}

    def leave(self, facts: dict[str, Any]) -> None:
        self.now += 5
        self.left.append(facts["seconds"])

    def go(self, deadline: float) -> None:
        train_in_slices(self.train, self.leave, seconds_done=self.done, deadline=deadline, clock=lambda: self.now)


def test_it_leaves_something_each_minute_and_ends_at_the_limit() -> None:
    run = Run(stretch_s=10_000)
    run.go(deadline=300)
    assert 300 <= run.now <= 300 + 10 + 5
    assert run.left[0] == 60
    assert all(b - a <= 60 for a, b in zip(run.left, run.left[1:], strict=False))


def test_a_stretch_of_two_commands_is_over_when_both_together_have_spent_its_time() -> None:
    run = Run(stretch_s=400)
    run.go(deadline=300)
    assert run.done < 400
    run.go(deadline=10_000)
    assert run.done == 400 == run.left[-1]


def test_a_full_disk_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(stretch_s=100)
    leave, failures = run.leave, [OSError("no space left")]

    def full_at_first(facts: dict[str, Any]) -> None:
        if failures:
            raise failures.pop()
        leave(facts)

    run.leave = full_at_first  # type: ignore[method-assign]
    run.go(deadline=1000)
    assert run.left[-1] == 100
    assert "no space left" in capsys.readouterr().out


def test_what_comes_home_is_whole_and_in_small_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch, "PART_BYTES", 4096)
    folder, out = tmp_path / "home", tmp_path / "out"
    (folder / "codec").mkdir(parents=True)
    for size in (30_000, 9_000):  # the second is smaller: no part of the first may stay
        (folder / "codec" / "x").write_bytes(bytes(range(250)) * (size // 250))
        bring_home(folder, out)
        parts = sorted(out.iterdir(), key=lambda path: int(path.suffix[1:]))
        assert all(part.stat().st_size <= 4096 for part in parts)
        with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
            file = archive.extractfile("./codec/x")
            assert file is not None
            assert len(file.read()) == size


def test_a_broken_model_is_not_written_over_a_good_one(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"w": torch.ones(3)}, {"steps": 1}, torch.float16)
    with pytest.raises(FloatingPointError, match="not finite: w"):
        save_checkpoint(tmp_path, {"w": torch.tensor([1.0, float("nan"), 1.0])}, {"steps": 2}, torch.float16)
    assert load_file(str(tmp_path / "shard-0.safetensors"))["w"].tolist() == [1, 1, 1]
    assert json.loads((tmp_path / "facts.json").read_text()) == {"steps": 1}


def test_what_goes_on_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may be killed while it writes; the next one on the machine goes on from what was there."""
    save_whole({"steps": 7}, tmp_path / "codec.pt")

    def killed(state: dict[str, int], file: Path) -> None:
        file.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        save_whole({"steps": 8}, tmp_path / "codec.pt")
    assert torch.load(tmp_path / "codec.pt", weights_only=True) == {"steps": 7}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A lent machine on which the teacher has spoken already."""
    for name in ("data", "keep", "shape"):
        (tmp_path / name).mkdir()
    codec = {**CODEC, "sample_rate": 24_000, "encoder_rates": [4, 4, 4, 5], "decoder_rates": [5, 4, 4, 4]}
    (tmp_path / "shape" / "codec.json").write_text(json.dumps(codec))
    line = CorpusLine("An owl sat still.", "", [(0, 2)], "willow", "", 1.0)
    write_corpus([line, line], tmp_path / "data" / "corpus.xz")
    t = torch.arange(80 * HOP)
    wave = (9000 * torch.sin(t * 0.2) * (t // 4000 % 2)).to(torch.int16)
    speech = Speech(
        wave,
        torch.zeros(160, dtype=torch.uint8),
        torch.tensor([0, 40 * HOP]),
        torch.tensor([40 * HOP, 40 * HOP]),
        [0, 1],
        [[4], [4]],
    )
    kept_speech(tmp_path / "keep" / "speech.pt", lambda: speech)
    return tmp_path


def test_the_codec_command_in_two_parts_equals_one(machine: Path, tmp_path: Path) -> None:
    """With a limit that has passed before the first step: the second command does all the work."""

    def command(keep: Path, out: str, *more: str) -> None:
        options = ["--data", str(machine / "data"), "--shape", str(machine / "shape"), "--keep", str(keep)]
        options += ["--out", str(machine / out), "--seconds", "60", "--steps", "2", "--batch", "1", "--device", "cpu"]
        assert main(["codec", *options, "--critics-from", "0.5", *more]) == 0

    other = tmp_path / "other"
    other.mkdir()
    (other / "speech.pt").write_bytes((machine / "keep" / "speech.pt").read_bytes())
    command(machine / "keep", "out")
    command(other, "out-2", "--limit", "0")
    command(other, "out-2")
    whole, parts = (
        {f.relative_to(keep): load_file(str(f)) for f in sorted((keep / "codec-home").glob("*/*.safetensors"))}
        for keep in (machine / "keep", other)
    )
    assert whole.keys() == parts.keys()
    for name, tensors in whole.items():
        for key, value in tensors.items():
            assert torch.equal(value, parts[name][key]), (name, key)
    assert sorted(path.name for path in (machine / "out").iterdir()) == ["stretch.tar.0"]


def test_a_stretch_remembers_those_that_it_goes_on_from(machine: Path) -> None:
    """For the model card, through three machines that know nothing of each other."""
    checkpoint = None
    for number, steps in enumerate((1, 2, 1)):
        keep = machine / f"keep-{number}"
        keep.mkdir()
        (keep / "speech.pt").write_bytes((machine / "keep" / "speech.pt").read_bytes())
        options = ["--data", str(machine / "data"), "--shape", str(machine / "shape"), "--keep", str(keep)]
        options += ["--out", str(machine / "out"), "--seconds", "60", "--steps", str(steps), "--batch", "1"]
        options += ["--device", "cpu", *(["--go-on-from", str(checkpoint)] if checkpoint else [])]
        assert main(["codec", *options]) == 0
        checkpoint = keep / "codec-home" / "codec"
    _, facts = load_checkpoint(checkpoint)
    assert [stretch["steps"] for stretch in (*facts["earlier"], facts)] == [1, 2, 1]


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """An English and a French clip, as `codec` leaves them; French is spoken by a blend."""
    arrays = {"rate": np.asarray(24_000)}
    for key, said in {"codec-0": ["An owl.", "willow"], "codec-1": ["Un hibou.", "blend-fr-07"]}.items():
        arrays |= {f"clip/{key}": np.asarray(said)}
        arrays |= {f"original/{key}": np.full(600, 5, np.int16), f"codec/{key}": np.full(600, 7, np.int16)}
    np.savez(tmp_path / "samples.npz", **arrays)
    return tmp_path / "samples.npz"


@pytest.mark.parametrize(("language", "spoken"), [("en", "An owl."), ("fr", "Un hibou.")])
def test_samples_become_two_folders_of_the_same_clips(
    samples: Path, tmp_path: Path, language: str, spoken: str
) -> None:
    """Only those that the recogniser is told to hear; a second run, which goes on, adds none."""
    for _ in range(2):
        unpack_samples(samples, tmp_path / "clips", language)
    for kind in ("original", "codec"):
        clips = read_clips(tmp_path / "clips" / kind)
        assert [clip.spoken for clip in clips] == [spoken]
        assert (tmp_path / "clips" / kind / clips[0].file).exists()


def test_samples_without_the_language_are_refused(samples: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no clip in es"):
        unpack_samples(samples, tmp_path / "clips", "es")
