"""A server that is killed at any moment loses no voice that counted, and keeps no half of one (tests/FAULTS.md)."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from realtime.voices.folder import Folder
from realtime.voices.library import VoiceLibrary
from tests.e2e.live import ROOT
from tests.faults.store_writer import IDS, fits, record_of

Titles = dict[str, str | None]
"""By id; None: there is no such voice."""


def killed_after(seconds: float, folder: Path, seed: int) -> list[str]:
    """What the writer printed until it was killed, so long after its first line."""
    command = [sys.executable, "-m", "tests.faults.store_writer", str(folder), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(seconds)
        writer.kill()
        return [first, *writer.stdout]


def lawful(lines: list[str], before: Titles) -> tuple[Titles, Titles]:
    """What must be there, and what may be there instead of it: of the change under way, either side."""
    sure, maybe = dict(before), Titles()
    for line in lines:
        if words := line.split():
            maybe = {words[0]: words[1] if len(words) > 1 else None}
        else:
            sure, maybe = sure | maybe, Titles()
    return sure, maybe


def found(folder: Path, caplog: pytest.LogCaptureFixture) -> Titles:
    """What a server finds at its next start; each voice is whole."""
    library = VoiceLibrary(Folder(folder, ".voice"), fits)
    assert not caplog.records, "a voice was damaged"
    assert not list(folder.glob("*.part")), "half of a file is kept"
    for id_, record in library.records.items():
        assert record == record_of(id_, record.title)
    return {id_: library.records[id_].title if id_ in library.records else None for id_ in IDS}


def check(rounds: int, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(7)
    titles: Titles = dict.fromkeys(IDS)
    for seed in range(rounds):
        sure, maybe = lawful(killed_after(chance.random() * 0.02, folder, seed), titles)
        titles = found(folder, caplog)
        for id_, title in titles.items():
            assert title == sure[id_] or (id_ in maybe and title == maybe[id_]), f"{id_} in round {seed}"


def test_a_store_that_is_killed_is_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check(8, tmp_path, caplog)


@pytest.mark.slow
def test_a_store_that_is_killed_hundreds_of_times_is_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check(400, tmp_path, caplog)
