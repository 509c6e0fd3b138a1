"""`kingfisher say` as a user runs it, against the real server (tones for a voice)."""

from __future__ import annotations

import os
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.server_process import ROOT, server_process


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server_process("--model", "null") as server:
        yield server.ws


SAY = [sys.executable, "-c", "import sys; from kingfisher_client.say import main; sys.exit(main())"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python")}


def say(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [*SAY, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)


def loudest_hz(path: Path) -> float:
    samples, rate_hz = soundfile.read(path)
    spectrum = np.abs(np.fft.rfft(samples[: rate_hz // 2]))
    return float(np.argmax(spectrum)) / len(samples[: rate_hz // 2]) * rate_hz


@pytest.mark.parametrize(("voice", "hz"), [("low", 300), ("high", 700)])
@pytest.mark.parametrize("name", ["said.wav", "said.opus"])
def test_a_text_becomes_a_file_in_the_voice_that_was_asked_for(
    address: str, tmp_path: Path, voice: str, hz: int, name: str
) -> None:
    path = tmp_path / name
    result = say("Hello there, this is one sentence.", "-o", str(path), "--voice", voice, "--url", address)
    assert result.returncode == 0, result.stderr
    assert loudest_hz(path) == pytest.approx(hz, abs=5)
    assert "TTFA" in result.stderr
    assert voice in result.stderr


def test_standard_input_is_spoken_as_it_comes(address: str, tmp_path: Path) -> None:
    piped, given = tmp_path / "piped.wav", tmp_path / "given.wav"
    text = "Grüße. One sentence, and then another one."
    assert say("-o", str(piped), "--url", address, text=text).returncode == 0
    assert say(text, "-o", str(given), "--url", address, "--quiet").returncode == 0
    assert piped.read_bytes() == given.read_bytes()


def test_the_sample_rate_is_honoured(address: str, tmp_path: Path) -> None:
    path = tmp_path / "said.wav"
    assert say("Hello.", "-o", str(path), "--sample-rate", "8000", "--url", address).returncode == 0
    with wave.open(str(path)) as file:
        assert file.getframerate() == 8000
        assert file.getnframes() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Hello."], "give -o FILE or --play"),
        (["Hello.", "-o", "said.mp3"], "must end in one of"),
        (["Hello.", "-o", "no/such/folder/said.wav"], "there is no folder"),
        (["Hello.", "-o", "said.wav", "--url", "ws://127.0.0.1:1/"], "127.0.0.1:1"),
        (["Hello.", "-o", "said.wav", "--voice", "nobody"], "unknown_voice"),
        (["Hello.", "-o", "said.wav", "--sample-rate", "-1"], "sample_rate is -1"),
    ],
    ids=["no output", "suffix", "folder", "no server", "voice", "rate"],
)
def test_every_mistake_is_one_line_and_status_1(address: str, arguments: list[str], message: str) -> None:
    result = say(*([] if "--url" in arguments else ["--url", address]), *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_error_ends_the_command_though_standard_input_is_open(address: str) -> None:
    command = [*SAY, "-o", "said.wav", "--url", address, "--sample-rate", "-1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as run:
        assert run.wait(timeout=30) == 1
