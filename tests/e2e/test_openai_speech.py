"""OpenAI's speech route against a real server: every format, events, voices by any name, errors in its shape."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from tests.e2e.live import Server, running
from tests.e2e.test_fish_http import EXPECTED_S, TEXT, decoded
from tests.e2e.vendors import http, peer, refused_handshake

KEY = {"Authorization": "Bearer key"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config={"api_keys": ["key"], "max_stream_chars": 5_000}) as server:
        yield server


async def speech(server: Server, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    whole = {"model": "tts-1", "voice": "alloy", "input": TEXT} | body
    async with http(server) as client:
        return await client.post("/v1/audio/speech", json=whole, headers=headers or KEY)


@pytest.mark.parametrize(
    ("form", "rate_hz", "media_type"),
    [
        (None, 24_000, "audio/mpeg"),
        ("mp3", 24_000, "audio/mpeg"),
        ("opus", 48_000, "audio/ogg"),
        ("aac", 24_000, "audio/aac"),
        ("flac", 24_000, "audio/flac"),
        ("wav", 24_000, "audio/wav"),
    ],
)
async def test_every_format_is_all_of_the_speech(
    server: Server, form: str | None, rate_hz: int, media_type: str
) -> None:
    answer = await speech(server, **({"response_format": form} if form else {}))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == media_type
    sound, at_hz = decoded(answer.content)
    assert at_hz == rate_hz
    assert len(sound) / rate_hz == pytest.approx(EXPECTED_S, abs=0.35)


@pytest.mark.parametrize("rate_hz", [None, 8_000, 16_000])
async def test_pcm_has_24_khz_or_the_rate_that_was_asked_for(server: Server, rate_hz: int | None) -> None:
    answer = await speech(server, response_format="pcm", sample_rate=rate_hz)
    assert answer.headers["x-sample-rate"] == str(rate_hz or 24_000)
    assert len(answer.content) / 2 / (rate_hz or 24_000) == pytest.approx(EXPECTED_S, abs=0.2)


async def test_events_hold_the_same_sound_and_the_usage(server: Server) -> None:
    answer = await speech(server, response_format="pcm", stream_format="sse")
    assert answer.headers["content-type"].startswith("text/event-stream")
    *sounds, done = (json.loads(line[6:]) for line in answer.text.splitlines() if line)
    assert {event["type"] for event in sounds} == {"speech.audio.delta"}
    pcm = b"".join(base64.b64decode(event["audio"]) for event in sounds)
    assert len(pcm) == len((await speech(server, response_format="pcm")).content)
    assert done["type"] == "speech.audio.done"
    assert done["usage"]["input_tokens"] == len(TEXT)
    assert done["usage"]["total_tokens"] == done["usage"]["input_tokens"] + done["usage"]["output_tokens"]


@pytest.mark.parametrize("speed", [0.25, 4.0])
async def test_speed(server: Server, speed: float) -> None:
    answer = await speech(server, response_format="pcm", speed=speed)
    assert len(answer.content) / 48_000 == pytest.approx(EXPECTED_S / speed, abs=0.3)


@pytest.mark.parametrize("voice", ["high", {"id": "low"}, "alloy", "nova", "../../etc/passwd", None])
async def test_any_voice_speaks(server: Server, voice: Any) -> None:
    answer = await speech(server, voice=voice, response_format="pcm")
    assert answer.status_code == 200
    assert np.abs(np.frombuffer(answer.content, np.int16)).max() > 1_000


@pytest.mark.parametrize(
    ("body", "status", "hint"),
    [
        ({"response_format": "mp4"}, 400, "mp3, opus, aac, flac, wav, pcm"),
        ({"input": ""}, 400, "nothing to say"),
        ({"input": "x " * 5_000}, 400, "5000 characters"),
        ({"speed": 5}, 400, "between 0.25 and 4"),
        ({"stream_format": "ws"}, 400, "audio, sse"),
        ({"sample_rate": 11_025}, 400, "11025"),
        ({"input": 5}, 400, "input"),
    ],
)
async def test_errors_have_openais_shape(server: Server, body: dict[str, Any], status: int, hint: str) -> None:
    answer = await speech(server, **body)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert hint in answer.json()["error"]["message"]


async def test_no_key_no_speech(server: Server) -> None:
    answer = await speech(server, headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "bad_key")


async def test_models(server: Server) -> None:
    async with http(server) as client:
        listed = (await client.get("/v1/models", headers=KEY)).json()
        one = (await client.get("/v1/models/tts-1", headers=KEY)).json()
        assert (await client.get("/v1/models")).status_code == 401
        assert (await client.get("/v1/")).status_code == 200
    assert "kingfisher" in [model["id"] for model in listed["data"]]
    assert one["object"] == "model"


async def heard_to_its_end(client: httpx.AsyncClient, heard: list[bytes], **body: Any) -> None:
    async with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.status_code == 200
        async for piece in answer.aiter_bytes():
            heard.append(piece)


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
async def test_a_failure_half_way_is_no_whole_answer(stream_format: str) -> None:
    heard: list[bytes] = []
    body = {"input": TEXT * 20, "response_format": "pcm", "stream_format": stream_format}
    with running(engine={"fail_at_step": 60, "step_s": 0.005}) as doomed:
        async with http(doomed) as client:
            with pytest.raises(httpx.HTTPError):
                await heard_to_its_end(client, heard, **body)
    assert heard
    assert (stream_format == "sse") == (b'"type":"error"' in b"".join(heard))


async def test_the_realtime_socket_speaks_for_a_browsers_key(server: Server) -> None:
    protocols = ["realtime", "openai-insecure-api-key.key"]
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TEXT}]}
    async with peer(server, "/v1/realtime?model=gpt-realtime", subprotocols=protocols) as client:
        assert client.socket.subprotocol == "realtime"
        await client.hear(type="session.created")
        for _ in range(2):
            await client.say({"type": "conversation.item.create", "item": item}, {"type": "response.create"})
            done = await client.hear(type="response.done")
            assert done["response"]["status"] == "completed"
    sound = client.sound("delta", type="response.output_audio.delta")
    assert len(sound) / 48_000 == pytest.approx(2 * EXPECTED_S, abs=0.3)


async def test_the_realtime_socket_refuses_a_wrong_key_at_the_handshake(server: Server) -> None:
    status, body = await refused_handshake(
        server, "/v1/realtime", subprotocols=["realtime", "openai-insecure-api-key.x"]
    )
    assert (status, body["error"]["code"]) == (401, "bad_key")
