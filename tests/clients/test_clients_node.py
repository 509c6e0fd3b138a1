"""The vendors' JavaScript packages against a real server with the bundled voice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.drivers.outcome import TEXTS
from tests.clients.hearing import DRIVERS, assert_understood, drive
from tests.clients.installed import node_folder
from tests.server_process import ServerProcess, server_process

pytestmark = [pytest.mark.clients, pytest.mark.asr]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "4") as server:
        yield server


def run(driver: str, server: ServerProcess, folder: Path) -> dict[str, Any]:
    """Modules are looked up from where a script lies, so it is laid beside them."""
    home = node_folder()
    for name in ("outcome.mjs", f"{driver}.mjs"):
        shutil.copy(DRIVERS / "node" / name, home)
    return drive(["node", home / f"{driver}.mjs"], server.http, folder)


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


def test_node_livekit(server: ServerProcess, tmp_path: Path) -> None:
    found = run("livekit", server, tmp_path)
    assert_understood(found)
    assert found["barge_in"] == "closed"
