"""The bundled voice tells when its words are heard, in the time of the sound that leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.server_process import ServerProcess, server_process

TEXT = "It costs $4.75 today. Please call me back when you have a moment to talk."


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "2") as running:
        yield running


def times(server: ServerProcess, speed: float) -> tuple[list[tuple[str, float, float]], float]:
    """(words with start and end, length of the sound), in seconds of the stream."""
    asked = {"text": TEXT, "format": "wav", "seed": 3, "temperature": 0.3, "prosody": {"speed": speed}}
    chunks: dict[int, list[tuple[str, float, float]]] = {}
    whole_s = 0.0
    answer = httpx.post(f"{server.http}/v1/tts/stream/with-timestamp", json=asked, timeout=60, trust_env=False)
    for line in answer.text.splitlines():
        if not line.startswith("data:") or not (event := json.loads(line.removeprefix("data:"))).get("alignment"):
            continue
        offset_s, alignment = event["chunk_audio_offset_sec"], event["alignment"]
        chunks[event["chunk_seq"]] = [
            (word["text"], offset_s + word["start"], offset_s + word["end"]) for word in alignment["segments"]
        ]
        whole_s = offset_s + alignment["audio_duration"]
    return [word for words in chunks.values() for word in words], whole_s


@pytest.mark.parametrize("speed", [0.7, 1.0, 1.5])
def test_every_word_of_the_client_has_its_time_in_the_sound(server: ServerProcess, speed: float) -> None:
    words, whole_s = times(server, speed)
    assert [text for text, _, _ in words] == TEXT.split()
    edges = [edge for _, start, end in words for edge in (start, end)]
    assert edges == sorted(edges)
    assert edges[0] >= 0.0
    assert edges[-1] <= whole_s + 0.001


def test_times_follow_the_speed(server: ServerProcess) -> None:
    plain, _ = times(server, 1.0)
    quick, _ = times(server, 1.5)
    for (_, at_s, _), (_, quick_s, _) in zip(plain, quick, strict=True):
        assert quick_s == pytest.approx(at_s / 1.5, abs=0.15)
