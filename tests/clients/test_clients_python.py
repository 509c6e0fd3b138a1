"""The vendors' Python packages against a real server with the bundled voice."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.clients.drivers.outcome import TEXTS
from tests.clients.hearing import DRIVERS, assert_understood, drive
from tests.clients.installed import python_of
from tests.clients.laws import check_realtime
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.clients, pytest.mark.asr]


def run(environment: str, driver: str, server: ServerProcess, folder: Path, *more: str) -> dict[str, Any]:
    return drive([python_of(environment), DRIVERS / f"{driver}.py"], server, folder, *more)


def test_fish_current(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "fish_live", server, tmp_path)
    assert_understood(found)
    assert "WebSocket" in found["error"]
    assert found["whole_bytes"] > 10_000
    assert found["voices"] >= 3


def test_fish_async(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "fish_async", server, tmp_path)
    assert_understood(found)
    assert found["barge_in_bytes"] > 1024
    assert found["state"] == "trained"
    assert found["titles"] == ["mine"]
    assert found["renamed"] == "renamed"
    assert found["gone"][0] == 404
    assert found["cloned_bytes"] > 10_000
    assert found["credit"]
    assert found["http_error"][0] == 400
    assert "WebSocket" in found["error"]


def test_fish_legacy(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "fish_legacy", server, tmp_path)
    assert_understood(found)
    assert found["barge_in_bytes"] > 1024
    assert found["error"].startswith("WebSocketErr")
    assert found["http_error"][0] == 400


def test_openai(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "openai_sdk", server, tmp_path)
    assert_understood(found)
    assert found["barge_in_bytes"] > 0
    assert found["error"][0] == 400
    assert found["models"]


def test_openai_realtime(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "openai_realtime", server, tmp_path)
    assert_understood(found)
    check_realtime(found)


def test_openai_realtime_over_tls(secure: ServerProcess, tmp_path: Path) -> None:
    check_realtime(run("sdks", "openai_realtime", secure, tmp_path))


def test_elevenlabs_over_tls(secure: ServerProcess, tmp_path: Path) -> None:
    assert_understood(run("sdks", "elevenlabs_secure", secure, tmp_path))


def test_elevenlabs(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "elevenlabs_sdk", server, tmp_path)
    assert_understood(found)
    assert found["barge_in_bytes"] > 0
    assert found["voices"] >= 3
    times = found["times"]
    assert times["text"].split() == TEXTS[0].split()
    assert all(a <= b for a, b in pairwise(times["starts_s"]))
    assert times["ends_s"][-1] <= times["audio_s"] + 0.06
    assert found["error"][0] in (400, 422)
    assert "output_format" in found["error"][1]


def test_cartesia(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "cartesia_sdk", server, tmp_path)
    assert_understood(found)
    assert found["stale"] == 0
    assert found["wav"] == "RIFF"
    assert found["words"] == TEXTS[0].split()
    assert all(a <= b for a, b in pairwise(found["starts_s"]))
    assert found["starts_s"][-1] < found["audio_s"]
    assert "sample_rate" in found["error"][0]


def test_deepgram(server: ServerProcess, tmp_path: Path) -> None:
    found = run("sdks", "deepgram_sdk", server, tmp_path)
    assert_understood(found)
    assert found["barge_in"] == "Cleared"
    assert found["error"][0] == 400


@pytest.mark.parametrize("plugin", ["fishaudio", "elevenlabs", "cartesia", "deepgram", "openai"])
def test_livekit(server: ServerProcess, tmp_path: Path, plugin: str) -> None:
    found = run("livekit", "livekit_tts", server, tmp_path, plugin)
    assert_understood(found)
    assert found["barge_in"] == "closed"
    if plugin in ("elevenlabs", "cartesia"):
        assert "".join(word for word, _ in found["words"]).split()[-1] == TEXTS[0].split()[-1]
        assert all(a <= b for (_, a), (_, b) in pairwise(found["words"]))


@pytest.mark.parametrize("plugin", ["fishaudio", "elevenlabs", "cartesia", "deepgram", "openai"])
def test_livekit_is_told_of_a_wrong_key(locked: ServerProcess, tmp_path: Path, plugin: str) -> None:
    assert run("livekit", "livekit_tts", locked, tmp_path, plugin, "--wrong-key")["error"]


PIPECAT = [
    ("pipecat", "fish"),
    ("pipecat", "elevenlabs"),
    ("pipecat", "cartesia"),
    ("pipecat", "deepgram"),
    ("pipecat", "openai"),
    ("pipecat-1.12", "fish"),
]


@pytest.mark.parametrize(("environment", "service"), PIPECAT)
def test_pipecat(server: ServerProcess, tmp_path: Path, environment: str, service: str) -> None:
    found = run(environment, "pipecat_tts", server, tmp_path, service)
    assert_understood(found)
    if service in ("elevenlabs", "cartesia"):
        assert " ".join(found["words"]).split()[-1] == TEXTS[0].split()[-1]


@pytest.mark.parametrize(("environment", "service"), PIPECAT)
def test_pipecat_is_told_of_a_wrong_key(locked: ServerProcess, tmp_path: Path, environment: str, service: str) -> None:
    assert "401" in run(environment, "pipecat_tts", locked, tmp_path, service, "--wrong-key")["error"]
