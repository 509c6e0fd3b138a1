"""A real server and a real socket: what a well-behaved client gets."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile

from engine.null import FRAME_SAMPLES, frames_like_speech
from tests.e2e.live import Server, all_of, pcm, running, sound, tone_hz

TEXT = "Sound for this sentence, please. And some for another one."


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(engine={"slots": 4}) as server:
        yield server


def samples_of(*units: str) -> int:
    from engine.api import Prefill

    frames = [frames_like_speech(Prefill(0, 0, None, unit)) for unit in units]  # type: ignore[arg-type]
    return sum(frames) * FRAME_SAMPLES


EXPECTED = samples_of("Sound for this sentence,", "please. And some for another one.")


async def test_a_socket_is_ready_and_says_what_it_offers(server: Server) -> None:
    async with server.caller("voice=high") as caller:
        ready = await caller.hear("ready")
    assert ready["voice"] == "high"
    assert ready["sample_rate"] == 24_000
    assert ready["limits"]["max_message_bytes"] == 16 << 20


async def test_pcm_is_every_sample_once(server: Server) -> None:
    async with server.caller() as caller:
        messages = await caller.turn(TEXT, format="pcm")
    samples = pcm(messages)
    units = [m for m in messages if m["event"] == "audio"]
    assert messages[-1]["event"] == "finish"
    assert messages[-1]["usage"]["audio_ms"] == pytest.approx(len(samples) / 24, abs=0.1)
    assert all(len(m["audio"]) > 1_024 and len(m["audio"]) % 2 == 0 for m in units)
    assert b"RIFF" not in sound(messages)
    assert tone_hz(samples) == pytest.approx(300, abs=2)
    # No 100 ms of the tone is heard twice where it should be once: the length is that of the frames.
    assert len(samples) % FRAME_SAMPLES == 0
    assert abs(len(samples) - EXPECTED) <= 2 * FRAME_SAMPLES


async def test_streamed_sound_does_not_depend_on_how_the_text_came(server: Server) -> None:
    async with server.caller() as caller:
        whole = sound(await caller.turn(TEXT, format="pcm", seed=1))
        await caller.start(format="pcm", seed=1)
        begin = len(caller.heard)
        for char in TEXT:
            await caller.say("text", text=char)
        await caller.say("stop")
        await caller.hear("finish")
    assert sound(caller.heard[begin:]) == whole


async def test_wav_has_one_header(server: Server) -> None:
    async with server.caller() as caller:
        await caller.start(format="wav", sample_rate=16_000)
        for text in ("One piece. ", "Two pieces. ", "Three pieces. "):
            await caller.say("text", text=text)
            await caller.say("flush")
        await caller.say("stop")
        await caller.hear("finish")
    body = sound(caller.heard)
    assert body.startswith(b"RIFF\xff\xff\xff\xffWAVE")
    assert body.count(b"RIFF") == 1
    assert len(body[44:]) / 32 == pytest.approx(caller.heard[-1]["usage"]["audio_ms"], abs=0.1)
    assert [m["seq"] for m in caller.heard if m["event"] == "flushed"] == [1, 2, 3]


async def test_ogg_opus_is_one_stream(server: Server) -> None:
    async with server.caller() as caller:
        messages = await caller.turn(TEXT)  # the default format
    body = sound(messages)
    pages = [index for index in range(len(body)) if body.startswith(b"OggS", index)]
    assert [body[page + 5] for page in pages] == [2, 0] + [0] * (len(pages) - 3) + [4]
    decoded, rate_hz = soundfile.read(io.BytesIO(body), dtype="int16")
    assert tone_hz(decoded, rate_hz) == pytest.approx(300, abs=2)
    assert abs(len(decoded) / rate_hz - EXPECTED / 24_000) < 0.15


async def test_opus_packets_decode_on_their_own(server: Server) -> None:
    import opuslib

    async with server.caller() as caller:
        messages = await caller.turn(TEXT, format="opus_packets")
    audio = [m for m in messages if m["event"] == "audio"]
    assert all("audio" not in m for m in audio)
    decoder = opuslib.Decoder(48_000, 1)
    decoded = b"".join(decoder.decode(packet, 960) for m in audio for packet in m["packets"])
    assert tone_hz(np.frombuffer(decoded, np.int16), 48_000) == pytest.approx(300, abs=2)
    assert sum(len(m["packets"]) * 20 for m in audio) == messages[-1]["usage"]["audio_ms"]


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 44_100, 48_000])
async def test_the_rate_asked_for_is_the_rate_that_comes(server: Server, rate_hz: int) -> None:
    async with server.caller() as caller:
        messages = await caller.turn(TEXT, format="pcm", sample_rate=rate_hz)
    assert tone_hz(pcm(messages), rate_hz) == pytest.approx(300, abs=2)
    assert len(pcm(messages)) / rate_hz * 1_000 == pytest.approx(messages[-1]["usage"]["audio_ms"], abs=1)


async def test_the_next_turn_goes_over_the_same_socket(server: Server) -> None:
    async with server.caller() as caller:
        for number in range(3):
            messages = await caller.turn(TEXT, format="pcm" if number % 2 else "wav")
            assert messages[-1]["reason"] == "stop"
            assert (b"RIFF" in sound(messages)) == (number % 2 == 0)


async def test_sessions_hear_their_own_sound(server: Server) -> None:
    """All of them claim the same id, which is only a label."""

    async def one(word: str) -> float:
        async with server.caller() as caller:
            text = f"The tone of this sentence is {word}. " * 2
            await caller.say("start", context_id="", request={"format": "pcm", "text": text, "max_lead_s": 30})
            await caller.say("stop")
            await caller.hear("finish")
            return tone_hz(pcm(caller.heard))

    words = ["low", "high"] * 6
    tones = await all_of(*map(one, words))
    assert tones == [pytest.approx(700 if word == "high" else 300, abs=2) for word in words]


@pytest.mark.parametrize("max_lead_s", [0.2, 1.0])
async def test_after_a_barge_in_only_the_new_sound_is_heard(server: Server, max_lead_s: float) -> None:
    async with server.caller() as caller:
        await caller.start("This is a low tone. " * 30, format="pcm", max_lead_s=max_lead_s)
        for _ in range(3):
            await caller.hear("audio")
        await caller.say("cancel", played_ms=100)
        await caller.say("text", text="And here is the high one.")
        await caller.say("stop")
        cancelled = await caller.hear("cancelled")
        after = len(caller.heard)
        await caller.hear("finish")
    assert cancelled["spoken_text"].startswith("This")
    assert cancelled["remaining_text"].endswith("This is a low tone.")
    samples = pcm(caller.heard[after:])
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    bins_per_hz = len(samples) / 24_000
    assert spectrum[round(300 * bins_per_hz)] < 0.001 * spectrum[round(700 * bins_per_hz)]


async def test_cancels_around_the_end_never_harm_the_next_turn(server: Server) -> None:
    """A cancel that comes before, with or after the last sound ends that turn or nothing."""
    async with server.caller() as caller:
        for round_ in range(40):
            await caller.start("A short one.", format="pcm")
            await caller.say("stop")
            for _ in range(round_ % 5):
                await asyncio.sleep(0)
            if round_ % 3:
                await caller.hear("audio")
            await caller.say("cancel")
            await caller.hear("cancelled", "finish")
            messages = await caller.turn("The next one is whole.", format="pcm")
            assert messages[-1]["reason"] == "stop"
            assert len(pcm(messages)) == samples_of("The next one is whole.")


async def test_pcm_is_paced_by_the_lead(server: Server) -> None:
    async with server.caller() as caller:
        await caller.start("This is a rather long text that takes its time. " * 20, format="pcm", max_lead_s=0.5)
        first = await caller.hear("audio")
        while caller.heard[-1]["pts_ms"] < 1_500:
            await caller.hear("audio")
        last = caller.heard[-1]
    ahead_ms = (last["pts_ms"] + last["duration_ms"]) - (last["time"] - first["time"])
    assert ahead_ms < 500 + 8 * 54, "the lead, and at most one widest codec call"


async def test_http_pages(server: Server) -> None:
    assert server.get("/healthz")[:2] == (200, '{"status":"ok"}')
    assert server.get("/readyz")[:2] == (200, '{"ready":true}')
    status, body, headers = server.get("/v1/voices")
    assert status == 200
    assert [voice["name"] for voice in json.loads(body)["voices"]] == ["low", "high"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "kingfisher_streams_total" in server.get("/metrics")[1]
    assert server.get("/no/such/page")[0] == 404
    assert server.get("/client/../realtime/config.py")[0] == 404


async def test_no_compression_is_negotiated_and_pings_are_answered(server: Server) -> None:
    async with server.caller(compression="deflate") as caller:
        response = caller.socket.response
        assert response is not None
        assert "Sec-WebSocket-Extensions" not in response.headers
        async with asyncio.timeout(5):
            await (await caller.socket.ping())


async def test_a_script_is_closed_after_its_only_turn(server: Server) -> None:
    async with server.caller() as caller:
        await caller.turn("Once.", format="pcm")
        assert await caller.closed() == (1000, "done")
