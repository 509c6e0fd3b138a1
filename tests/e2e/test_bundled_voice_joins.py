"""Where one unit of the bundled voice follows another in a stream: no click, a natural pause, the same level.

That units continue one another is held by tests/integration/test_engine_contract.py, that the sound does not depend on
how the text came by test_bundled_voice.py, what may be cut at all by tests/property/test_pause_laws.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from loadtest.pauses import RATE_HZ, TEXTS, Spoken, Text, measure, speak
from tests.server_process import ServerProcess, server_process

WINDOW = RATE_HZ // 100
LONGEST_MS = {"inside a clause": 200, "clause": 300, "sentence": 500, "paragraph": 760}
"""What realtime.protocol.pauses allows, and 120 ms for the fading of the last sound. Untouched, the voice is silent for
265 to 560 ms inside a clause, 330 to 725 at a comma, 490 to 745 between sentences."""
LONGEST_BEGINNING_MS = 80
WIDEST_LEVEL_DB = 3.0
"""From the stream's median; a little more than a listener notices."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "2") as running:
        yield running


@pytest.fixture(scope="module")
def spoken(server: ServerProcess) -> list[tuple[Text, Spoken]]:
    """Every text by every voice."""
    return [
        (text, asyncio.run(speak(server.ws, text, voice, seed=1)))
        for voice in ("willow", "hazel", "rowan")
        for text in TEXTS
    ]


def loudness(pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Root mean square of each 10 ms."""
    whole = pcm[: len(pcm) // WINDOW * WINDOW].reshape(-1, WINDOW)
    return np.asarray(np.sqrt((whole**2).mean(axis=1)), np.float32)


def test_a_join_is_no_click(spoken: list[tuple[Text, Spoken]]) -> None:
    """Nor is the place where silence was cut, which lies before it."""
    for _, one in spoken:
        steps = np.abs(np.diff(one.pcm))
        of_speech = np.quantile(steps, 0.99)
        assert all(steps[join - WINDOW : join + WINDOW // 4].max() < of_speech for join in one.joins)


def test_a_pause_is_as_long_as_its_place_asks_for(spoken: list[tuple[Text, Spoken]]) -> None:
    for text, one in spoken:
        begin_ms, joins_ms, end_ms = measure(one)
        assert begin_ms <= LONGEST_BEGINNING_MS
        assert end_ms <= LONGEST_MS["sentence"]
        for kind, join_ms in zip(text.joins, joins_ms, strict=True):
            assert join_ms <= LONGEST_MS[kind], f"{kind} in {text.parts}"


def test_units_have_one_level(spoken: list[tuple[Text, Spoken]]) -> None:
    for text, one in spoken:
        if len(text.joins) < 3:
            continue
        units = [loudness(one.pcm[a:b]) for a, b in pairwise([0, *one.joins, len(one.pcm)])]
        levels_db = [20 * np.log10(np.median(unit[unit > 0.1 * unit.max()])) for unit in units]
        assert np.abs(levels_db - np.median(levels_db)).max() < WIDEST_LEVEL_DB
