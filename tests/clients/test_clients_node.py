"""The vendors' JavaScript packages against a real server with the bundled voice."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.clients.drivers.outcome import TEXTS
from tests.clients.hearing import DRIVERS, assert_understood, drive
from tests.clients.installed import node_folder
from tests.clients.laws import check_realtime
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.clients, pytest.mark.asr]


def run(driver: str, server: ServerProcess, folder: Path) -> dict[str, Any]:
    """Modules are looked up from where a script lies, so it is laid beside them."""
    home = node_folder()
    for name in ("outcome.mjs", f"{driver}.mjs"):
        shutil.copy(DRIVERS / "node" / name, home)
    return drive(["node", home / f"{driver}.mjs"], server, folder)


@pytest.mark.parametrize("driver", ["fish", "openai", "elevenlabs", "cartesia", "deepgram"])
def test_node_package(server: ServerProcess, tmp_path: Path, driver: str) -> None:
    found = run(driver, server, tmp_path)
    assert_understood(found)
    assert found.get("barge_in") == "closed" or found["barge_in_bytes"] > 0
    status, message = found["error"]
    assert 400 <= status < 500
    assert message
    if driver == "elevenlabs":
        assert found["text"].split() == TEXTS[1].split()
        assert found["starts_s"] == sorted(found["starts_s"])


def test_node_openai_realtime(secure: ServerProcess, tmp_path: Path) -> None:
    found = run("openai_realtime", secure, tmp_path)
    assert_understood(found)
    check_realtime(found)


def test_node_cartesia_socket(secure: ServerProcess, tmp_path: Path) -> None:
    found = run("cartesia_socket", secure, tmp_path)
    assert_understood(found)
    assert found["words"] == TEXTS[0].split()
    assert found["stale"] == 0
    assert "sample_rate" in found["error"]


def test_node_deepgram_socket(server: ServerProcess, tmp_path: Path) -> None:
    found = run("deepgram_socket", server, tmp_path)
    assert_understood(found)
    assert found["barge_in"] == "Cleared"
    assert "400" in found["error"]


def test_node_livekit(server: ServerProcess, tmp_path: Path) -> None:
    found = run("livekit", server, tmp_path)
    assert_understood(found)
    assert found["barge_in"] == "closed"


def test_node_livekit_over_tls(secure: ServerProcess, tmp_path: Path) -> None:
    assert_understood(run("livekit_secure", secure, tmp_path))


def test_node_livekit_is_told_of_a_wrong_key(locked: ServerProcess, tmp_path: Path) -> None:
    assert "401" in run("livekit_refused", locked, tmp_path)["error"]
