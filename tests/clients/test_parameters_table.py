"""Whatever a caller of the vendors' packages can ask for stands in COMPATIBILITY.md: done, refused or ignored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.hearing import DRIVERS, drive
from tests.clients.installed import python_of
from tests.server_process import ROOT, ServerProcess

pytestmark = pytest.mark.clients

PAGE = ROOT / "clients" / "COMPATIBILITY.md"


def listed() -> dict[str, set[str]]:
    """By protocol, the names in the table of parameters; of `a.b` each part counts."""
    table = PAGE.read_text().split("## Parameters")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")]
    return {
        row[0].strip(): {part for name in re.findall(r"`([^`]+)`", " ".join(row[1:])) for part in name.split(".")}
        for row in rows
    }


def test_every_parameter_of_the_packages_is_listed(server: ServerProcess, tmp_path: Path) -> None:
    found = drive([python_of("sdks"), DRIVERS / "sdk_parameters.py"], server, tmp_path)
    missing = {name: set(found[name]) - listed()[name] for name in found if name != "turns"}
    assert missing == {"Fish": set(), "OpenAI": set(), "ElevenLabs": set(), "Cartesia": set(), "Deepgram": set()}
