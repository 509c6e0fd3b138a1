"""Odd and long texts through a real server and the bundled voice: all is said, and nothing is met with silence."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from kingfisher_client import AsyncClient

from tests.server_process import ServerProcess, server_process

RATE_HZ = 24_000
WINDOW = RATE_HZ // 100
SILENCE_DB = -45.0
"""Of full scale, in 10 ms; the voice's words lie near -20 dB."""
LEAST_WORD_S = 0.2

MIXED = {
    "chinese": "今天天气很好，我们去公园吧！",
    "chinese in english": "The word 你好 means hello.",
    "cyrillic in english": "My friend Дмитрий said да.",
    "arabic": "هل أنت بخير؟",
    "arabic in english": "She said مرحبا to me.",
    "hebrew": "שלום לכם",
    "japanese": "こんにちは、元気ですか",
    "korean": "안녕하세요",
    "hindi": "क्या आप ठीक हैं।",
    "greek": "Καλημέρα σας",
    "arabic digits": "٣٤٥",
    "emoji in english": "Great 🙂 see you 🎉",
    "full width": "Ｈｅｌｌｏ ｔｈｅｒｅ",
    "bold": "𝐇𝐞𝐥𝐥𝐨 𝐭𝐡𝐞𝐫𝐞",
    "all at once": "Hello 世界, Привет мир, مرحبا 🙂 and goodbye.",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "2") as running:
        yield running


@pytest.mark.parametrize("text", MIXED.values(), ids=MIXED)
async def test_mixed_scripts_are_never_met_with_silence(server: ServerProcess, text: str) -> None:
    async with AsyncClient(server.ws) as client:
        sound = [audio.data async for audio in client.speak(text, format="pcm", sample_rate=RATE_HZ, seed=1)]
    pcm = np.frombuffer(b"".join(sound), np.int16) / 32768
    windows = pcm[: len(pcm) // WINDOW * WINDOW].reshape(-1, WINDOW)
    level_db = 10 * np.log10(np.square(windows).mean(axis=1) + 1e-12)
    assert (level_db > SILENCE_DB).sum() * WINDOW / RATE_HZ >= LEAST_WORD_S


SENTENCES = (
    "Thank you for calling the front desk this morning, and please stay on the line for a moment.",
    "Your order left the warehouse on Friday, so it should reach you before the end of the week.",
    "Would you like me to move the appointment to the afternoon, or shall we keep it as it is?",
    "The library closes early during the winter, but the reading room stays open until midnight.",
    "He found an old map in the captain's boot and hung it on the wall above the fireplace.",
)


@pytest.mark.slow
def test_fifteen_hundred_words_are_spoken_completely_and_in_order(server: ServerProcess) -> None:
    """Each word has its time, none before the word before it, and every unit takes as long as its words need."""
    text = " ".join(f"Part {number}. {' '.join(SENTENCES)}" for number in range(1, 18))
    assert len(text.split()) >= 1_500
    words: dict[int, list[tuple[str, float, float]]] = {}
    spans_s: dict[int, float] = {}
    request = {"text": text, "format": "pcm", "seed": 3}
    url = f"{server.http}/v1/tts/stream/with-timestamp"
    with httpx.stream("POST", url, json=request, timeout=600, trust_env=False) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:") and (event := json.loads(line.removeprefix("data:"))).get("alignment"):
                offset_s, alignment = event["chunk_audio_offset_sec"], event["alignment"]
                segments = alignment["segments"]
                words[event["chunk_seq"]] = [(s["text"], offset_s + s["start"], offset_s + s["end"]) for s in segments]
                spans_s[event["chunk_seq"]] = alignment["audio_duration"]
    assert [word for unit in words.values() for word, _, _ in unit] == text.split()
    edges = [edge for unit in words.values() for _, start_s, end_s in unit for edge in (start_s, end_s)]
    assert edges == sorted(edges)
    slow, quick = 8.0, 25.0  # characters a second
    for number, unit in words.items():
        chars = sum(len(word) + 1 for word, _, _ in unit)
        assert chars / quick <= spans_s[number] <= chars / slow + 1.0, unit
