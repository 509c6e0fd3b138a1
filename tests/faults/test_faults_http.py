"""The same faults where speech is asked for over HTTP and over other vendors' sockets (tests/FAULTS.md)."""

from __future__ import annotations

import asyncio
import io
import json
import wave
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.e2e.live import Server, running
from tests.e2e.vendors import http, peer

KEY = "kf-secret-7f3a"
LONG = "This sentence belongs to a long story that nobody will hear to its end. " * 60

ROUTES: dict[str, dict[str, Any]] = {
    "/v1/tts": {"text": "Hello there.", "format": "pcm"},
    "/v1/tts/stream/with-timestamp": {"text": "Hello there.", "format": "pcm"},
    "/v1/text-to-speech/low/stream?output_format=pcm_24000": {"text": "Hello there."},
    "/v1/speak?encoding=linear16&container=none": {"text": "Hello there."},
    "/tts/bytes": {
        "transcript": "Hello there.",
        "model_id": "sonic-2",
        "voice": {"mode": "id", "id": "low"},
        "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000},
    },
    "/hooks/vapi": {"message": {"type": "voice-request", "text": "Hello there.", "sampleRate": 24_000}},
}
"""A body that each route answers with sound."""

SOCKETS = (
    "/v1/tts/live",
    "/v1/text-to-speech/low/stream-input",
    "/v1/text-to-speech/low/multi-stream-input",
    "/tts/websocket",
    "/v1/speak",
    "/hooks/jambonz",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config={"api_keys": [KEY]}, engine={"slots": 4}) as server:
        yield server


def spoken(text: str, route: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(ROUTES[route]).replace("Hello there.", text))
    return body


def keyed(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}api_key={KEY}"


@pytest.mark.parametrize("route", ROUTES)
async def test_fault_78_every_route_says_no_with_a_status_and_a_body(server: Server, route: str) -> None:
    async with http(server) as client:
        answer = await client.post(route, json=ROUTES[route])
        assert answer.status_code == 401
        assert answer.json()
        assert (await client.post(keyed(route), json=ROUTES[route])).status_code == 200


@pytest.mark.parametrize("route", ROUTES)
async def test_fault_78_every_route_counts_for_its_key(route: str) -> None:
    with running(config={"api_keys": [KEY], "key_sessions_per_minute": 2}) as small:
        async with http(small) as client:
            answers = [await client.post(keyed(route), json=ROUTES[route]) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1].headers["Retry-After"]


@pytest.mark.parametrize("path", SOCKETS)
async def test_fault_37_what_a_socket_of_any_protocol_held_comes_back(path: str) -> None:
    with running(config={"api_keys": [KEY], "key_sessions": 1}) as small:
        for _ in range(5):
            async with peer(small, keyed(path)):
                pass
            await small.metric_becomes("kingfisher_sessions", 0)


@pytest.mark.parametrize("route", ROUTES)
async def test_fault_36_a_request_that_is_dropped_ends_its_speech(server: Server, route: str) -> None:
    before_s = await server.metric("kingfisher_audio_seconds_total")
    async with http(server) as client, client.stream("POST", keyed(route), json=spoken(LONG, route)) as answer:
        assert answer.status_code == 200
        async for _ in answer.aiter_bytes():
            break
    await server.metric_becomes("kingfisher_sessions", 0)
    await server.metric_becomes("kingfisher_slots_used", 0)
    assert await server.metric("kingfisher_audio_seconds_total") - before_s < 200, "of 290 s"


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("text", ["", " ", "…"])
async def test_fault_3_a_request_for_nothing_is_answered(server: Server, route: str, text: str) -> None:
    """With no sound, or with an error that is the client's; never with one that is ours."""
    async with http(server) as client:
        answer = await client.post(keyed(route), json=spoken(text, route))
    assert answer.status_code in (200, 204, 400, 422)
    await server.metric_becomes("kingfisher_slots_used", 0)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"text": 5}', b"[" * 100_000, b"\xff\xfe", b"{}"])
async def test_fault_81_a_body_without_text_is_a_clear_no_or_silence(server: Server, route: str, body: bytes) -> None:
    async with http(server) as client:
        answer = await client.post(keyed(route), content=body, headers={"Content-Type": "application/json"})
    if answer.status_code == 200:
        assert not answer.content, "what had no text was spoken"
    else:
        assert 400 <= answer.status_code < 500
        assert answer.json()
    assert "Traceback" not in (log := "".join(server.log)), log[-3000:]


@pytest.mark.parametrize("path", SOCKETS)
async def test_fault_81_frames_of_junk_end_or_are_told_and_nobody_else_notices(server: Server, path: str) -> None:
    async with peer(server, keyed(path)) as bad:
        with suppress(ConnectionClosed):
            for frame in (b"\xc1", "{", "[]", "null", '{"text": 5}', "[" * 50_000):
                await bad.socket.send(frame)
        async with http(server) as client:
            good = await client.post(keyed("/v1/tts"), json=ROUTES["/v1/tts"])
    assert good.status_code == 200
    assert "Traceback" not in (log := "".join(server.log)), log[-3000:]
    await server.metric_becomes("kingfisher_sessions", 0)


async def test_fault_64_a_whole_wav_states_its_true_sizes(server: Server) -> None:
    async with http(server) as client:
        answer = await client.post(keyed("/v1/tts"), json={"text": "Hello there.", "format": "wav", "streaming": False})
    with wave.open(io.BytesIO(answer.content)) as read:
        assert read.getnframes() * 2 == len(answer.content) - 44


async def test_fault_80_a_body_over_the_limit_names_it(server: Server) -> None:
    async with http(server) as client:
        body = json.dumps({"text": "x" * (17 << 20)})
        answer = await client.post(keyed("/v1/tts"), content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413)
    assert str(16 << 20) in answer.text


async def test_fault_43_streams_of_all_protocols_at_once_are_each_whole(server: Server) -> None:
    async with http(server) as client:
        alone = {route: (await client.post(keyed(route), json=ROUTES[route])).content for route in ROUTES}
        for _ in range(3):
            answers = await asyncio.gather(*(client.post(keyed(route), json=ROUTES[route]) for route in ROUTES))
            for route, answer in zip(ROUTES, answers, strict=True):
                if "timestamp" not in route:
                    assert len(answer.content) == len(alone[route])
