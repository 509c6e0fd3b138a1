"""Deepgram's protocol and the platform hooks against a real server: turns, barge-in, errors, formats, HTTP."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile

from tests.e2e.live import Server, running, tone_hz
from tests.e2e.vendors import http, peer, refused_handshake

PATH = "/v1/speak?model=aura-2-thalia-en&encoding=linear16&sample_rate=16000"
KEY = {"Authorization": "Token secret"}
LONG = "This sentence is one of many that nobody is going to hear. " * 40


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config={"api_keys": ["secret"]}, engine={"slots": 4}) as server:
        yield server


async def test_turns_word_by_word(server: Server) -> None:
    async with peer(server, PATH, additional_headers=KEY) as caller:
        assert (await caller.hear(type="Metadata"))["model_name"] == "aura-2-thalia-en"
        lengths = []
        for sequence_id in range(2):
            before = len(caller.sound())
            await caller.say(*({"type": "Speak", "text": word + " "} for word in "A high sentence.".split()))
            await caller.say({"type": "Flush"})
            await caller.hear(type="Flushed", sequence_id=sequence_id)
            lengths.append(len(caller.sound()) - before)
        await caller.say({"type": "Close"})
        assert await caller.closed() == 1000
    assert min(lengths) > 0
    assert tone_hz(np.frombuffer(caller.sound(), np.int16), 16_000) == pytest.approx(700, abs=3)


async def test_a_barge_in_leaves_no_stale_sound(server: Server) -> None:
    async with peer(server, PATH, additional_headers=KEY) as caller:
        await caller.say({"type": "Speak", "text": LONG}, {"type": "Flush"})
        await caller.hear_sound()
        await caller.say({"type": "Clear"})
        await caller.hear(type="Cleared")
        before = len(caller.sound())
        await caller.say({"type": "Speak", "text": "A high one."}, {"type": "Flush"})
        await caller.hear(type="Flushed")
    fresh = np.frombuffer(caller.sound()[before:], np.int16)
    assert tone_hz(fresh, 16_000) == pytest.approx(700, abs=20)


async def test_a_browser_gives_its_key_as_a_subprotocol(server: Server) -> None:
    async with peer(server, PATH, subprotocols=["token", "secret"]) as caller:
        assert caller.socket.subprotocol == "token"
        await caller.hear(type="Metadata")


async def test_refusals_have_the_vendors_shape(server: Server) -> None:
    status, body = await refused_handshake(server, PATH)
    assert (status, body["err_code"]) == (401, "INVALID_AUTH")
    status, body = await refused_handshake(server, PATH + "0", additional_headers=KEY)
    assert status == 400
    assert "sample_rate" in body["err_msg"]
    async with peer(server, PATH, additional_headers=KEY) as caller:
        await caller.say({"type": "Sing"})
        await caller.hear(type="Error")
        assert await caller.closed() == 1007


async def test_speech_over_http(server: Server) -> None:
    async with http(server) as client:
        wav = await client.post("/v1/speak?model=high&encoding=linear16", json={"text": "Some words."}, headers=KEY)
        raw = await client.post(
            "/v1/speak?encoding=mulaw&container=none",
            content="Bare text.",
            headers=KEY | {"content-type": "text/plain"},
        )
        ogg = await client.post("/v1/speak?encoding=opus", json={"text": "Some words."}, headers=KEY)
        bad = await client.post("/v1/speak?encoding=tape", json={"text": "Some words."}, headers=KEY)
    assert (wav.headers["content-type"], wav.headers["dg-model-name"], wav.headers["dg-char-count"]) == (
        "audio/wav",
        "high",
        "11",
    )
    assert len(raw.content) % 160 == 0
    assert ogg.headers["content-type"] == "audio/ogg"
    assert len(soundfile.read(io.BytesIO(ogg.content))[0])
    assert bad.status_code == 400
    assert "encoding" in bad.json()["err_msg"]


async def test_flux_turns_and_an_interruption(server: Server) -> None:
    path = "/v2/speak?model=low&encoding=linear16&sample_rate=16000"
    async with peer(server, path, additional_headers=KEY) as caller:
        await caller.hear(type="Connected")
        for _ in range(2):
            await caller.say({"type": "Speak", "text": "A high sentence."}, {"type": "Flush"})
            await caller.hear(type="SpeechMetadata")
        await caller.say({"type": "Speak", "text": LONG}, {"type": "Flush"})
        await caller.hear(type="SpeechStarted")
        await caller.hear_sound()
        await caller.say({"type": "Interrupt", "playback_offset": {"type": "time_ms", "value": 10**7}})
        interrupted = await caller.hear(type="SpeechInterrupted")
        assert interrupted["text_spoken"]
        assert interrupted["text_remaining"]
        before = len(caller.sound())
        await caller.say({"type": "Speak", "text": "A high one."}, {"type": "Flush"}, {"type": "Close"})
        await caller.hear(type="SessionMetadata")
        assert await caller.closed() == 1000
    assert tone_hz(np.frombuffer(caller.sound()[before:], np.int16), 16_000) == pytest.approx(700, abs=20)


async def test_jambonz_turns_and_its_end(server: Server) -> None:
    path = "/hooks/jambonz?voice=low&language=en&sampleRate=16000"
    async with peer(server, path, additional_headers={"Authorization": "Bearer secret"}) as caller:
        assert (await caller.hear(type="connect"))["data"] == {"sample_rate": 16_000, "base64_encoding": False}
        for _ in range(2):
            await caller.say({"type": "stream", "text": "A high sentence."}, {"type": "flush"})
            await caller.hear_sound()
        await caller.say({"type": "stop"})
        assert await caller.closed() == 1000


async def test_hooks_answer_with_samples_at_the_rate_asked_for(server: Server) -> None:
    vapi = {"message": {"type": "voice-request", "text": "A high one.", "sampleRate": 16_000, "call": {}}}
    trtc = {"Text": "A high one.", "Format": "pcm", "SampleRate": 16_000, "Channel": 1, "AppId": 5}
    async with http(server) as client:
        secret = {"x-vapi-secret": "secret"}
        from_vapi = await client.post("/hooks/vapi?voice=low", json=vapi, headers=secret)
        from_trtc = await client.post("/hooks/trtc", json=trtc, headers={"Authorization": "Bearer secret"})
        as_wav = await client.post("/hooks/trtc", json=trtc | {"Format": "wav"}, headers=KEY)
        jambonz = await client.post("/hooks/jambonz", json={"text": "A high one.", "type": "text"}, headers=KEY)
        bad = await client.post("/hooks/trtc", json=trtc | {"Format": "mp3"}, headers=KEY)
    for answer in (from_vapi, from_trtc):
        assert tone_hz(np.frombuffer(answer.content, np.int16), 16_000) == pytest.approx(700, abs=3)
    assert from_trtc.headers["content-type"] == "audio/L16"
    assert as_wav.headers["content-type"] == jambonz.headers["content-type"] == "audio/wav"
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, "bad_request")
