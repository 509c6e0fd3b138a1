"""The load test against a real server: each mode gives its figures, and the sound it measured was whole."""

from __future__ import annotations

import json
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

from realtime.__main__ import main
from tests.server_process import server_process


def figures(folder: Path) -> dict:
    (level,) = json.loads((folder / "results.json").read_text())["levels"]
    return level


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server_process("--model", "null") as server:
        yield server.ws


@pytest.mark.parametrize("mode", ["open", "talkers", "closed", "burst"])
def test_each_mode_measures_and_hears_whole_streams(url: str, tmp_path: Path, mode: str) -> None:
    command = f"loadtest --url {url} --mode {mode} -n 3 --seconds 2 --ramp-s 0.1 --listen --raw --out {tmp_path}"
    assert main(command.split()) == 0
    level = figures(tmp_path)
    assert level["turns"] >= 3
    assert (level["errors"], level["pts_gaps"], level["clicks"]) == (0, 0, 0)
    assert level["length_error_max_ms"] < 1
    assert level["ttfa_p50_ms"] > 0
    turns = [json.loads(line) for line in (tmp_path / "turns.jsonl").read_text().splitlines()]
    for turn in turns:
        assert sum(ms for _, ms, _ in turn["chunks"]) == pytest.approx(turn["audio_ms"], abs=1)
        total_ms = turn["server_ttfa_ms"].pop("total")
        assert sum(turn["server_ttfa_ms"].values()) == pytest.approx(total_ms, abs=0.1)
        assert min(turn["server_ttfa_ms"].values()) >= 0


def test_interruptions_are_answered_and_the_next_speech_follows(url: str, tmp_path: Path) -> None:
    assert main(f"loadtest --url {url} --mode churn -n 2 --seconds 2 --ramp-s 0.1 --out {tmp_path}".split()) == 0
    level = figures(tmp_path)
    assert level["turns"] >= 2
    assert 0 < level["cancel_answer_p50_ms"] < level["cancel_next_audio_p50_ms"]
    assert level["cancel_silence_p99_ms"] <= level["cancel_next_audio_p99_ms"]


def test_cold_voices_are_new_with_every_turn(tmp_path: Path) -> None:
    clip = tmp_path / "clip.wav"
    with wave.open(str(clip), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(bytes(2 * 24_000))
    with server_process("--model", "null", "--voices-dir", str(tmp_path / "voices")) as server:
        command = f"loadtest --url {server.ws} --mode talkers -n 2 --seconds 2 --cold {clip} --out {tmp_path}"
        assert main(command.split()) == 0
    assert len(list((tmp_path / "voices" / "clips").glob("*.codes"))) == figures(tmp_path)["turns"]


def test_slow_readers_do_not_keep_the_others_from_whole_streams(url: str, tmp_path: Path) -> None:
    command = (
        f"loadtest --url {url} --mode talkers -n 2 --seconds 3 --ramp-s 0.1 --slow-readers 3 --listen --out {tmp_path}"
    )
    assert main(command.split()) == 0
    level = figures(tmp_path)
    assert level["turns"] >= 2
    assert (level["errors"], level["pts_gaps"], level["clicks"]) == (0, 0, 0)
