"""The bundled voice over HTTP, heard by a recogniser: formats that lose, speed, dialogues, and a voice of one's own."""

from __future__ import annotations

import io
from collections.abc import Iterator

import av
import httpx
import numpy as np
import numpy.typing as npt
import pytest

from tests.e2e.test_bundled_voice import SENTENCES, WORST_WORD_ERROR_RATE
from tests.listening import recognise, word_errors, words
from tests.server_process import ServerProcess, server_process

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--slots", "4") as running:
        yield running


def post(server: ServerProcess, **body: object) -> tuple[npt.NDArray[np.float32], int]:
    answer = httpx.post(server.http + "/v1/tts", json=body, timeout=DEADLINE_S, trust_env=False)
    assert answer.status_code == 200, answer.text
    with av.open(io.BytesIO(answer.content)) as container:
        frames = list(container.decode(audio=0))
    sound = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
    return (sound / 32_768 if sound.dtype == np.int16 else sound).astype(np.float32), frames[0].sample_rate


@pytest.mark.asr
@pytest.mark.parametrize(
    "asked",
    [
        {"format": "mp3", "mp3_bitrate": 64},
        {"format": "opus", "opus_bitrate": 32, "prosody": {"speed": 1.25, "volume": 6}},
        {"format": "wav", "sample_rate": 16_000, "prosody": {"speed": 0.8, "volume": -10}},
    ],
    ids=["mp3", "opus, faster", "wav, slower"],
)
def test_what_is_said_is_understood(server: ServerProcess, asked: dict[str, object]) -> None:
    errors = total = 0
    for number, sentence in enumerate(SENTENCES[:8]):
        wrong, said = word_errors(sentence, recognise(*post(server, text=sentence, seed=number, **asked)))
        errors, total = errors + wrong, total + said
    print(f"word error rate {errors}/{total} = {errors / total:.3f}")
    assert errors / total <= WORST_WORD_ERROR_RATE


@pytest.mark.asr
def test_every_turn_of_a_dialogue_is_heard(server: ServerProcess) -> None:
    turns = SENTENCES[1], SENTENCES[3], SENTENCES[4]
    text = "".join(f"<|speaker:{number % 2}|>{turn} " for number, turn in enumerate(turns))
    heard = words(recognise(*post(server, text=text, reference_id=["willow", "hazel"], format="wav", seed=3)))
    for turn in turns:
        found = [word for word in words(turn) if word in heard]
        assert len(found) > len(words(turn)) / 2, f"{turn!r} is missing in {heard}"


@pytest.mark.parametrize("text", ["We will send a message when it is ready.", ""])
def test_an_uploaded_clip_becomes_a_voice_that_speaks(server: ServerProcess, text: str) -> None:
    said = {"text": "We will send a message when it is ready.", "voice": "rowan", "seed": 4}
    clip = httpx.post(server.http + "/v1/tts", json=said, timeout=DEADLINE_S, trust_env=False).content
    form = {"type": "tts", "title": "Rowan again", "texts": text}
    files = {"voices": ("clip.mp3", clip, "audio/mpeg")}
    made = httpx.post(server.http + "/model", data=form, files=files, timeout=DEADLINE_S, trust_env=False)
    assert made.status_code == 201, made.text
    sound, rate_hz = post(server, text="And this is the clone.", voice=made.json()["_id"], seed=4)
    assert len(sound) / rate_hz > 0.5
    assert float(np.abs(sound).max()) > 0.05


@pytest.mark.parametrize("clip", [b"", b"a text file", b"RIFF\xff\xff\xff\xffWAVE", b"/etc/hostname"])
def test_a_clip_that_is_none_is_refused_with_the_reason(server: ServerProcess, clip: bytes) -> None:
    files = {"voices": ("clip.wav", clip, "audio/wav")}
    refused = httpx.post(
        server.http + "/model", data={"title": "None"}, files=files, timeout=DEADLINE_S, trust_env=False
    )
    assert refused.status_code == 400
    assert "clip" in refused.json()["message"]
