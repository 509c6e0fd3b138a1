"""Faults of the voice itself, judged by a recogniser (tests/FAULTS.md)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from kingfisher_client import AsyncClient

from tests.listening import recognise, words
from tests.server_process import ServerProcess, server_process

SEEDS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "2") as running:
        yield running


async def spoken(server: ServerProcess, text: str, seed: int) -> np.ndarray:
    async with AsyncClient(server.ws) as client:
        data = b"".join([audio.data async for audio in client.speak(text, format="pcm", sample_rate=24_000, seed=seed)])
    return np.frombuffer(data, np.int16).astype(np.float32) / 32_768


@pytest.mark.slow
@pytest.mark.asr
@pytest.mark.parametrize("word", ["Bye.", "No", "Okay!"])
async def test_fault_15_a_one_word_reply_is_short(server: ServerProcess, word: str) -> None:
    clips = [await spoken(server, word, seed) for seed in range(SEEDS)]
    lengths_s = [len(clip) / 24_000 for clip in clips]
    assert max(lengths_s) <= 2.5
    assert min(lengths_s) >= 0.2
    right = sum(words(recognise(clip, 24_000)) == words(word) for clip in clips)
    print(f"{word}: {right} of {SEEDS} understood, {min(lengths_s):.2f} to {max(lengths_s):.2f} s")
