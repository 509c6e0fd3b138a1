"""ElevenLabs' protocol against a real server: turns, barge-in, errors, formats, HTTP."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile

from tests.e2e.live import Server, running, tone_hz
from tests.e2e.vendors import http, peer, refused_handshake

KEY = {"xi-api-key": "secret"}
MULTI = "/v1/text-to-speech/hpp4J3VqNfWAUOO0d1Us/multi-stream-input?output_format=pcm_16000&inactivity_timeout=180"
LONG = "This sentence is one of many that nobody is going to hear. " * 40


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config={"api_keys": ["secret"], "max_sessions": 40}, engine={"slots": 8}) as server:
        yield server


async def test_turns_on_one_socket_as_the_agent_frameworks_do_them(server: Server) -> None:
    async with peer(server, MULTI + "&auto_mode=true&sync_alignment=true", additional_headers=KEY) as caller:
        for turn in ("one", "two", "three"):
            await caller.say({"text": " ", "context_id": turn, "voice_settings": {"stability": 0.5}})
            await caller.say({"text": "A high sentence for you. ", "context_id": turn, "flush": True})
            await caller.say({"context_id": turn, "close_context": True})
            await caller.hear(contextId=turn, isFinal=True)
            samples = np.frombuffer(caller.sound("audio", contextId=turn), np.int16)
            assert tone_hz(samples, 16_000) == pytest.approx(700, abs=3)


async def test_a_barge_in_is_silence_on_that_context_and_frees_its_seat(server: Server) -> None:
    async with peer(server, MULTI, additional_headers=KEY) as caller:
        await caller.say({"text": LONG, "context_id": "old"}, {"context_id": "old", "close_context": True})
        while not caller.sound("audio", contextId="old"):
            await caller.hear(contextId="old")
        await caller.say({"context_id": "old", "close_context": True})
        await caller.hear(contextId="old", isFinal=True)
        before = len(caller.heard)
        await caller.say({"text": "New. ", "context_id": "new"}, {"context_id": "new", "close_context": True})
        await caller.hear(contextId="new", isFinal=True)
        assert {message["contextId"] for message in caller.heard[before:]} == {"new"}
        await server.metric_becomes("kingfisher_sessions", 0)


async def test_twenty_contexts_speak_on_one_socket(server: Server) -> None:
    names = [str(index) for index in range(20)]
    async with peer(server, MULTI, additional_headers=KEY) as caller:
        await caller.say(*({"text": "Some words. ", "context_id": name} for name in names))
        await caller.say(*({"context_id": name, "close_context": True} for name in names))
        missing = set(names)
        while missing:
            missing.discard((await caller.hear(isFinal=True))["contextId"])
    assert len({len(caller.sound("audio", contextId=name)) for name in names}) == 1


async def test_a_caller_who_hangs_up_frees_all_contexts_at_once(server: Server) -> None:
    async with peer(server, MULTI, additional_headers=KEY) as caller:
        await caller.say(*({"text": LONG, "context_id": str(index), "flush": True} for index in range(5)))
        await caller.hear(isFinal=False)
        assert await server.metric("kingfisher_sessions") == 5
        caller.socket.transport.abort()
        await server.metric_becomes("kingfisher_sessions", 0)


async def test_the_single_stream_ends_its_socket(server: Server) -> None:
    path = "/v1/text-to-speech/low/stream-input?output_format=ulaw_8000"
    async with peer(server, path, additional_headers=KEY) as caller:
        await caller.say({"text": " "}, {"text": "Some words over the telephone. "}, {"text": ""})
        await caller.hear(isFinal=True)
        assert await caller.closed() == 1000
    assert caller.sound("audio")
    assert len(caller.sound("audio")) % 160 == 0


async def test_handshakes_are_refused_in_the_vendors_shape(server: Server) -> None:
    assert await refused_handshake(server, MULTI) == (
        401,
        {"detail": {"status": "invalid_api_key", "message": "an API key is needed: Authorization: Bearer KEY, "
        "?api_key=KEY, or the subprotocol pair"}},
    )  # fmt: skip
    status, body = await refused_handshake(server, MULTI + "&sync_alignment=5", additional_headers=KEY)
    assert status == 400
    assert "sync_alignment" in body["detail"]["message"]


async def test_speech_over_http_in_every_shape(server: Server) -> None:
    base, asked = "/v1/text-to-speech/low", {"text": "Some words.", "model_id": "eleven_flash_v2_5"}
    query = {"output_format": "pcm_22050"}
    async with http(server) as client:
        for path in ("", "/stream"):
            answer = await client.post(base + path, params=query, json=asked, headers=KEY)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "audio/pcm"
            whole = answer.content
            assert tone_hz(np.frombuffer(whole, np.int16), 22_050) == pytest.approx(300, abs=3)
        timed = await client.post(f"{base}/with-timestamps", params=query, json=asked, headers=KEY)
        lines = await client.post(f"{base}/stream/with-timestamps", params=query, json=asked, headers=KEY)
    assert len(base64.b64decode(timed.json()["audio_base64"])) == len(whole)
    parts = [json.loads(line) for line in lines.text.splitlines()]
    assert len(b"".join(base64.b64decode(part["audio_base64"]) for part in parts)) == len(whole)


@pytest.mark.parametrize(
    ("form", "rate_hz"), [("mp3_22050_32", 22_050), ("mp3_44100_128", 44_100), ("wav_16000", 16_000)]
)
async def test_files_are_files(server: Server, form: str, rate_hz: int) -> None:
    asked = {"text": "Some words.", "voice_settings": {"speed": 0.8}}
    async with http(server) as client:
        answer = await client.post(
            "/v1/text-to-speech/low/stream", params={"output_format": form}, json=asked, headers=KEY
        )
    samples, heard_hz = soundfile.read(io.BytesIO(answer.content), dtype="int16")
    assert heard_hz == rate_hz
    assert tone_hz(samples, rate_hz) == pytest.approx(300, abs=6)


@pytest.mark.parametrize(
    ("query", "body", "named"),
    [
        ({}, {}, "text"),
        ({}, {"text": " "}, "text"),
        ({"output_format": "pcm_1"}, {"text": "Hi."}, "output_format"),
        ({}, {"text": "Hi.", "voice_settings": {"speed": 9}}, "speed"),
        ({}, {"text": "Hi.", "pronunciation_dictionary_locators": [{"id": "x"}]}, "pronunciation"),
        ({}, {"text": "Hi.", "seed": -1}, "seed"),
        ({}, {"text": "Hi.", "audio_effects": {"reverb": {"send_level": 1}}}, "audio_effects"),
    ],
)
async def test_bad_requests_name_the_field(
    server: Server, query: dict[str, str], body: dict[str, object], named: str
) -> None:
    async with http(server) as client:
        answer = await client.post("/v1/text-to-speech/low", params=query, json=body, headers=KEY)
    assert answer.status_code == 400
    assert named in answer.json()["detail"]["message"]


async def test_lists_answer_to_the_vendors_header_and_leave_the_others_theirs(server: Server) -> None:
    async with http(server) as client:
        voices = (await client.get("/v1/voices", headers=KEY)).json()["voices"]
        assert {"low", "high"} <= {voice["voice_id"] for voice in voices}
        ours = (await client.get("/v1/voices", headers={"Authorization": "Bearer secret"})).json()
        assert ours["sample_rate"] == 24_000
        assert (await client.get("/v2/voices", headers=KEY)).json()["has_more"] is False
        assert (await client.get("/v1/voices/high", headers=KEY)).json()["name"] == "high"
        assert (await client.get("/v1/voices/nobody", headers=KEY)).status_code == 404
        assert (await client.get("/v1/models", headers=KEY)).json()[0]["can_do_text_to_speech"]
        assert (await client.get("/v1/user", headers=KEY)).json()["subscription"]["status"] == "active"
        assert (await client.get("/v1/user/subscription", headers=KEY)).json()["tier"]
        assert (await client.get("/v1/user")).status_code == 401
