"""Cartesia's protocol against a real server: turns, barge-in, errors, formats, HTTP."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.e2e.live import Server, running, tone_hz
from tests.e2e.vendors import http, peer, refused_handshake

PATH = "/tts/websocket?cartesia_version=2026-08-14"
KEY = {"X-API-Key": "secret"}
LONG = "This sentence is one of many that nobody is going to hear. " * 40


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config={"api_keys": ["secret"], "max_sessions": 40}, engine={"slots": 8}) as server:
        yield server


def asks(context_id: str, transcript: str, encoding: str = "pcm_s16le", **fields: Any) -> dict[str, Any]:
    return {
        "context_id": context_id,
        "model_id": "sonic-3",
        "transcript": transcript,
        "voice": {"mode": "id", "id": "a0e99841-438c-4a64-b679-ae501e7d6091"},
        "output_format": {"container": "raw", "encoding": encoding, "sample_rate": 16_000},
        "language": "en",
        "add_timestamps": True,
    } | fields


async def test_turns_of_continued_text(server: Server) -> None:
    async with peer(server, PATH, additional_headers=KEY) as caller:
        for turn in ("one", "two"):
            more = {"continue": True, "max_buffer_delay_ms": 0}
            await caller.say(asks(turn, "A high sentence. ", **more), asks(turn, "Another high one. ", **more))
            await caller.say(asks(turn, " ", **{"continue": False}))
            await caller.hear(type="done", context_id=turn)
            samples = np.frombuffer(caller.sound("data", context_id=turn), np.int16)
            assert tone_hz(samples, 16_000) == pytest.approx(700, abs=3)


async def test_a_barge_in_leaves_no_stale_sound_and_frees_its_seat(server: Server) -> None:
    async with peer(server, PATH, additional_headers=KEY) as caller:
        await caller.say(asks("old", LONG, **{"continue": True}))
        await caller.hear(type="chunk", context_id="old")
        await caller.say({"context_id": "old", "cancel": True})
        await caller.say(asks("new", "Something new."))
        await caller.hear(context_id="new")
        before = len(caller.heard)
        await caller.hear(type="done", context_id="new")
        assert {message["context_id"] for message in caller.heard[before:]} == {"new"}
        await server.metric_becomes("kingfisher_sessions", 0)


async def test_a_bad_message_fails_its_context_and_the_socket_goes_on(server: Server) -> None:
    async with peer(server, PATH, additional_headers=KEY) as caller:
        await caller.say(asks("bad", "Hi.", encoding="mp3"), asks("good", "Hi."))
        error = await caller.hear(type="error", context_id="bad")
        assert "encoding" in error["message"]
        await caller.hear(type="done", context_id="good")


@pytest.mark.parametrize(("encoding", "kind"), [("pcm_f32le", "<f4"), ("pcm_mulaw", "u1"), ("pcm_alaw", "u1")])
async def test_every_encoding_lasts_as_long(server: Server, encoding: str, kind: str) -> None:
    async with peer(server, PATH, additional_headers=KEY) as caller:
        await caller.say(asks("a", "Some words."), asks("b", "Some words.", encoding=encoding))
        await caller.hear(type="done")
        await caller.hear(type="done")
    plain = np.frombuffer(caller.sound("data", context_id="a"), np.int16)
    other = np.frombuffer(caller.sound("data", context_id="b"), kind)
    assert abs(len(other) - len(plain)) <= 513  # the silence that fills the last event of 1026 bytes, or frame of 20 ms
    if kind == "<f4":
        assert np.allclose(other * 32_768, plain[: len(other)])


async def test_keys_are_found_wherever_clients_put_them(server: Server) -> None:
    for path, headers in ((PATH, {"Authorization": "Bearer secret"}), (PATH + "&access_token=secret", {})):
        async with peer(server, path, additional_headers=headers) as caller:
            await caller.say(asks("a", "Hi."))
            await caller.hear(type="done")
    status, body = await refused_handshake(server, PATH)
    assert (status, body["error_code"], body["type"]) == (401, "unauthorized", "error")


async def test_speech_over_http(server: Server) -> None:
    body = asks("x", "Some words.")
    async with http(server) as client:
        raw = await client.post("/tts/bytes", json=body, headers=KEY)
        wav = await client.post("/tts/bytes", json=body | {"output_format": {"container": "wav"}}, headers=KEY)
        sse = await client.post("/tts/sse", json=body, headers=KEY)
        bad = await client.post("/tts/bytes", json=body | {"output_format": {"container": "tape"}}, headers=KEY)
        voices = await client.get("/voices", headers=KEY)
        nobody = await client.get("/voices/nobody", headers=KEY)
    assert (raw.headers["content-type"], wav.headers["content-type"]) == ("audio/pcm", "audio/wav")
    assert wav.content.startswith(b"RIFF")
    events = [json.loads(line[6:]) for line in sse.text.splitlines() if line.startswith("data: ")]
    heard = b"".join(base64.b64decode(event["data"]) for event in events if event["type"] == "chunk")
    assert len(heard) == len(raw.content)
    assert events[-1]["type"] == "done"
    assert (bad.status_code, bad.json()["status_code"]) == (400, 400)
    assert {voice["id"] for voice in voices.json()["data"]} >= {"low", "high"}
    assert nobody.status_code == 404


@pytest.mark.parametrize(
    ("encoding", "subtype"),
    [("pcm_s16le", "PCM_16"), ("pcm_f32le", "FLOAT"), ("pcm_mulaw", "ULAW"), ("pcm_alaw", "ALAW")],
)
async def test_a_wav_file_holds_the_encoding_that_was_asked_for(server: Server, encoding: str, subtype: str) -> None:
    form = {"container": "wav", "encoding": encoding, "sample_rate": 8_000}
    async with http(server) as client:
        raw = await client.post(
            "/tts/bytes", json=asks("x", "Some words.") | {"output_format": form | {"container": "raw"}}, headers=KEY
        )
        wav = await client.post("/tts/bytes", json=asks("x", "Some words.") | {"output_format": form}, headers=KEY)
    assert wav.content.endswith(raw.content)
    with soundfile.SoundFile(io.BytesIO(wav.content)) as file:
        assert (file.subtype, file.samplerate, file.channels) == (subtype, 8_000, 1)
        assert len(file.read()) / 8_000 == pytest.approx(len("Some words.") / 15, abs=0.1)


async def test_paging_through_the_voices_comes_to_an_end(server: Server) -> None:
    async with http(server) as client:
        names = [voice["id"] for voice in (await client.get("/voices", headers=KEY)).json()["data"]]
        for name, rest in ((names[0], names[1:]), (names[-1], []), ("nobody", [])):
            page = (await client.get("/voices", params={"starting_after": name}, headers=KEY)).json()
            assert [voice["id"] for voice in page["data"]] == rest
        page = (await client.get("/voices", params={"ending_before": names[-1]}, headers=KEY)).json()
        assert [voice["id"] for voice in page["data"]] == names[:-1]


async def test_contexts_beyond_the_servers_sessions_fail_alone_and_room_comes_back() -> None:
    with running(config={"max_sessions": 2}) as small:
        async with peer(small, PATH) as caller:
            await caller.say(*(asks(name, "Held", **{"continue": True}) for name in ("a", "b", "c")))
            error = await caller.hear(type="error")
            assert (error["context_id"], error["status_code"]) == ("c", 503)
            await caller.say({"context_id": "a", "cancel": True}, asks("d", "Some words."))
            await caller.hear(type="done", context_id="d")
