"""Where one unit of the bundled voice follows another in a stream: no click, no long pause, the same level.

That units continue one another is held by tests/integration/test_engine_contract.py, that the sound does not depend on
how the text came by test_bundled_voice.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from kingfisher_client import AsyncClient

from tests.server_process import ServerProcess, server_process

RATE_HZ = 24_000
WINDOW = RATE_HZ // 100
TEXT = (
    "I can move your appointment to the afternoon, if that suits you better than the morning. "
    "The doctor is free at three on Monday. Would you like to speak with the manager? "
    "Please wait a moment while I look that up."
)
UNITS = 5
"""The first sentence is begun at its comma."""
LONGEST_PAUSE_S = 1.0
"""Between sentences of unhurried speech. The voice's own pauses are 0.4 to 0.8 s long: it ends every unit with as much
quiet, at a comma too, where a person would pause for half of that."""
WIDEST_LEVEL_DB = 3.0
"""From the stream's median; a little more than a listener notices."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "2") as running:
        yield running


@dataclass
class Spoken:
    pcm: npt.NDArray[np.float32]
    joins: list[int]
    """Index of the first sample of each unit but the first."""


def loudness(pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Root mean square of each 10 ms."""
    whole = pcm[: len(pcm) // WINDOW * WINDOW].reshape(-1, WINDOW)
    return np.asarray(np.sqrt((whole**2).mean(axis=1)), np.float32)


@pytest.fixture(scope="module", params=["willow", "hazel", "rowan"])
def spoken(request: pytest.FixtureRequest, server: ServerProcess) -> Spoken:
    return asyncio.run(listen(server, request.param))


async def listen(server: ServerProcess, voice: str) -> Spoken:
    begins_s: dict[int, float] = {}
    pcm = b""
    async with AsyncClient(server.ws + "/with-timestamp") as client:
        async for audio in client.speak(TEXT, format="pcm", sample_rate=RATE_HZ, voice=voice, seed=1):
            begins_s.setdefault(audio.chunk_seq, audio.chunk_audio_offset_sec)
            pcm += audio.data
    samples = np.frombuffer(pcm, np.int16).astype(np.float32) / 32_768
    assert len(begins_s) == UNITS
    return Spoken(samples, [round(begins_s[unit] * RATE_HZ) for unit in range(1, UNITS)])


def test_a_join_is_no_click(spoken: Spoken) -> None:
    steps = np.abs(np.diff(spoken.pcm))
    of_speech = np.quantile(steps, 0.99)
    assert all(steps[join - WINDOW // 4 : join + WINDOW // 4].max() < of_speech for join in spoken.joins)


def test_a_join_is_no_long_pause(spoken: Spoken) -> None:
    quiet = loudness(spoken.pcm) < 0.1 * np.sqrt((spoken.pcm**2).mean())
    longest = round(LONGEST_PAUSE_S * RATE_HZ / WINDOW)
    for join in spoken.joins:
        around = quiet[max(0, join // WINDOW - longest) : join // WINDOW + longest]
        runs = "".join("q" if is_quiet else " " for is_quiet in around).split()
        assert max(map(len, runs), default=0) < longest


def test_units_have_one_level(spoken: Spoken) -> None:
    units = [loudness(unit) for unit in np.split(spoken.pcm, spoken.joins)]
    levels_db = [20 * np.log10(np.median(unit[unit > 0.1 * unit.max()])) for unit in units]
    assert np.abs(levels_db - np.median(levels_db)).max() < WIDEST_LEVEL_DB
