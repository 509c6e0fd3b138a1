"""One encoder process: what it imports, and whom the failure of one session's encoder concerns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from realtime.protocol.events import AudioFormat, OutputSpec
from realtime.runtime.delivery import Delivery, UnitChunk
from realtime.runtime.encoders import EncoderProcess
from realtime.runtime.worker import OpenStream
from realtime.scheduler.job import Failed, SessionId, UnitAudio, UtteranceDone, UtteranceId

DEADLINE_S = 15.0
UTTERANCE = UtteranceId(1)
SOUND = np.arange(2_400, dtype=np.int16)
NO_SOUND = np.array(0, dtype=np.int16)
"""A number, which cannot be cut into pieces."""


@asynccontextmanager
async def running() -> AsyncIterator[tuple[EncoderProcess, asyncio.Queue[Delivery | str]]]:
    """The process, and what is heard of it: deliveries, or why it ended."""
    heard: asyncio.Queue[Delivery | str] = asyncio.Queue()

    def take(deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            heard.put_nowait(delivery)

    process = EncoderProcess("an encoder process", take, heard.put_nowait)
    try:
        await process.start()
        yield process, heard
    finally:
        process.stop()


async def next_of(heard: asyncio.Queue[Delivery | str]) -> Delivery | str:
    return await asyncio.wait_for(heard.get(), DEADLINE_S)


def opened(session: int, form: AudioFormat = "pcm") -> OpenStream:
    return OpenStream(SessionId(session), UTTERANCE, OutputSpec(form), 24_000)


def sound(session: int, pcm: np.ndarray = SOUND) -> UnitAudio:
    return UnitAudio(SessionId(session), UTTERANCE, 0, pcm, None)


@pytest.mark.parametrize("module", ["struct", "numpy", "realtime", "pickle"])
async def test_files_where_the_server_was_started_are_not_taken_for_modules(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text("raise SystemExit('the wrong file was imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    async with running() as (process, heard):
        process.put([opened(1), sound(1)])
        assert isinstance(await next_of(heard), UnitChunk)


async def test_an_encoder_that_fails_ends_its_own_stream_and_no_other() -> None:
    async with running() as (process, heard):
        process.put([opened(1, "opus"), opened(2), sound(1), sound(1, NO_SOUND), sound(1)])
        process.put([UtteranceDone(SessionId(1), UTTERANCE), sound(2)])
        first, failed, other = [await next_of(heard) for _ in range(3)]
        assert isinstance(first, UnitChunk)
        assert failed == Failed(SessionId(1), UTTERANCE, "internal", "the sound could not be encoded")
        assert isinstance(other, UnitChunk)
        assert (other.session, other.chunk.data) == (2, SOUND.tobytes())
        process.put([opened(1), sound(1)])
        assert isinstance(await next_of(heard), UnitChunk), "its next stream is spoken"
