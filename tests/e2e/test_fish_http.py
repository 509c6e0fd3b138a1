"""Fish Audio over HTTP against a real server: every format, dialogues, timestamps, errors as SDKs read them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import av
import httpx
import msgspec
import numpy as np
import pytest
import soundfile

from tests.e2e.live import Server, running
from tests.e2e.vendors import http

KEY = {"Authorization": "Bearer key"}
TEXT = "One sentence for the test. And a second one follows."


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config={"api_keys": ["key"], "max_stream_chars": 5_000}) as server:
        yield server


async def tts(server: Server, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    async with http(server) as client:
        return await client.post("/v1/tts", json={"text": TEXT} | body, headers=headers or KEY)


def decoded(data: bytes) -> tuple[np.ndarray[Any, Any], int]:
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(audio=0))
    return np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames]), frames[0].sample_rate


EXPECTED_S = round(len("One sentence for the test.") / 15, 2) + round(len("And a second one follows.") / 15, 2)


@pytest.mark.parametrize(
    ("form", "rate_hz", "media_type"),
    [
        ("mp3", 32_000, "audio/mpeg"),
        ("mp3", 44_100, "audio/mpeg"),
        ("opus", 48_000, "audio/ogg"),
        ("flac", 44_100, "audio/flac"),
        ("aac", 24_000, "audio/aac"),
        *(("wav", rate, "audio/wav") for rate in (8_000, 16_000, 24_000, 32_000, 44_100)),
    ],
)
async def test_every_format_is_all_of_the_speech(server: Server, form: str, rate_hz: int, media_type: str) -> None:
    answer = await tts(server, format=form, sample_rate=rate_hz)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == media_type
    sound, at_hz = decoded(answer.content)
    assert at_hz == rate_hz
    assert len(sound) / rate_hz == pytest.approx(EXPECTED_S, abs=0.35)


@pytest.mark.parametrize("rate_hz", [32_000, 44_100])
@pytest.mark.parametrize(
    ("asked", "bit_rate"),
    [
        *((kbit, kbit * 1000) for kbit in (64, 128, 192)),
        *((bits, bits) for bits in (64_000, 128_000, 192_000)),
        (-1000, 128_000),
        (None, 128_000),
    ],
)
async def test_mp3_has_the_bit_rate_whatever_its_notation(
    server: Server, rate_hz: int, asked: int | None, bit_rate: int
) -> None:
    answer = await tts(server, format="mp3", sample_rate=rate_hz, mp3_bitrate=asked)
    with av.open(io.BytesIO(answer.content)) as container:
        assert container.streams.audio[0].bit_rate == bit_rate
        assert container.streams.audio[0].sample_rate == rate_hz


async def test_opus_grows_with_its_bit_rate_whatever_its_notation(server: Server) -> None:
    sizes = []
    for kbit in (24, 32, 48, 64):
        first, second = [len((await tts(server, format="opus", opus_bitrate=b)).content) for b in (kbit, kbit * 1000)]
        assert first == pytest.approx(second, rel=0.03)  # pages are cut where chunks end
        sizes.append(second)
    assert sizes == sorted(sizes)
    assert sizes[-1] > 2 * sizes[0]
    automatic = await tts(server, format="opus", opus_bitrate=-1000)
    assert decoded(automatic.content)[1] == 48_000


async def test_absent_fields_mean_what_fish_says(server: Server) -> None:
    assert decoded((await tts(server)).content)[1] == 44_100  # mp3
    pcm = await tts(server, format="pcm", sample_rate=None)
    assert pcm.headers["x-sample-rate"] == "44100"
    assert len(pcm.content) / 2 / 44_100 == pytest.approx(EXPECTED_S, abs=0.2)


async def test_a_stream_has_unknown_sizes_and_a_whole_answer_true_ones(server: Server) -> None:
    streamed, whole = await tts(server, format="wav"), await tts(server, format="wav", streaming=False)
    assert streamed.content[40:44] == b"\xff" * 4
    assert streamed.content[44:] == whole.content[44:]
    assert int.from_bytes(whole.content[40:44], "little") == len(whole.content) - 44
    assert soundfile.read(io.BytesIO(whole.content))[1] == 44_100


async def test_msgpack_with_an_inline_clip(server: Server) -> None:
    body = {"text": TEXT, "format": "pcm", "references": [{"audio": b"any clip", "text": "words"}], "model": "s1"}
    async with http(server) as client:
        answer = await client.post(
            "/v1/tts", content=msgspec.msgpack.encode(body), headers=KEY | {"content-type": "application/msgpack"}
        )
    assert answer.status_code == 200
    assert len(answer.content) > 44_100


async def test_speed_and_volume(server: Server) -> None:
    plain = np.frombuffer((await tts(server, format="pcm")).content, np.int16).astype(float)
    fast = np.frombuffer((await tts(server, format="pcm", prosody={"speed": 2})).content, np.int16)
    soft = np.frombuffer((await tts(server, format="pcm", prosody={"volume": -20})).content, np.int16)
    assert len(fast) / len(plain) == pytest.approx(0.5, abs=0.03)
    assert np.abs(soft).max() / np.abs(plain).max() == pytest.approx(0.1, abs=0.01)


async def test_a_dialogue_is_one_stream_of_several_voices(server: Server) -> None:
    answer = await tts(
        server, text="<|speaker:0|>It is low. <|speaker:1|>It is high.", reference_id=["low", "high"], format="wav"
    )
    sound, rate_hz = decoded(answer.content)
    assert answer.content.count(b"RIFF") == 1
    assert len(sound) / rate_hz == pytest.approx(22 / 15, abs=0.3)
    begin, end = sound[: rate_hz // 4], sound[-rate_hz // 2 : -rate_hz // 4]
    pitches = [int(np.argmax(np.abs(np.fft.rfft(part * np.hanning(len(part)))))) * 4 for part in (begin, end)]
    assert pitches == [pytest.approx(300, abs=8), pytest.approx(700, abs=8)]


async def test_an_unknown_voice_is_spoken_by_the_default_one(server: Server) -> None:
    assert (await tts(server, reference_id="933563129e564b19a115bedd57b7406a")).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "hint"),
    [
        ({"format": "mp4"}, 400, "mp3"),
        ({"format": "opus_packets"}, 400, "sockets"),
        ({"text": " ... "}, 400, "nothing to say"),
        ({"text": "x " * 5_000}, 400, "5000 characters"),
        ({"voice": "../../etc/passwd"}, 404, "no voice"),
        ({"prosody": {"speed": 9}}, 400, "between 0.5 and 2"),
        ({"references": [{"audio": "no base64!"}]}, 400, "references"),
        ({"references": [{"audio": "YWJj", "text": "x" * 1_001}]}, 400, "1001 characters; at most 1000"),
        ({"streaming": "yes"}, 400, "streaming"),
        ({"streaming": False, "text": "x " * 5_001}, 400, "10000"),
    ],
)
async def test_errors_are_objects_with_a_message(server: Server, body: dict[str, Any], status: int, hint: str) -> None:
    answer = await tts(server, **body)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert hint in answer.json()["message"]


async def test_no_key_no_speech(server: Server) -> None:
    answer = await tts(server, headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert isinstance(answer.json()["message"], str)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff" * 50, b"[" * 100_000])
async def test_a_body_that_is_none_is_refused(server: Server, content: bytes) -> None:
    async with http(server) as client:
        for kind in ("application/json", "application/msgpack"):
            answer = await client.post("/v1/tts", content=content, headers=KEY | {"content-type": kind})
            assert answer.status_code == 400


async def test_the_stream_with_timestamps_holds_the_same_sound(server: Server) -> None:
    async with http(server) as client:
        answer = await client.post(
            "/v1/tts/stream/with-timestamp", json={"text": TEXT, "format": "pcm", "seed": 1}, headers=KEY
        )
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    sound = b"".join(base64.b64decode(event["audio_base64"]) for event in events)
    assert sound == (await tts(server, format="pcm", seed=1)).content
    assert {(event["chunk_seq"], event["content"]) for event in events} == {
        (0, "One sentence for the test."),
        (1, "And a second one follows."),
    }
    second = next(event for event in events if event["chunk_seq"] == 1)
    assert second["chunk_audio_offset_sec"] == pytest.approx(26 / 15, abs=0.1)


async def test_a_failure_half_way_is_no_whole_answer(server: Server) -> None:
    with running(engine={"fail_at_step": 60, "step_s": 0.005}) as doomed:
        async with http(doomed) as client:
            with pytest.raises(httpx.HTTPError):
                await client.post("/v1/tts", json={"text": TEXT * 20, "format": "pcm"})


async def test_who_hangs_up_while_waiting_for_a_slot_does_not_keep_the_place() -> None:
    with running(config={"queue_s": 60.0}, engine={"slots": 1, "step_s": 0.005}) as busy:
        async with busy.caller() as caller, http(busy) as client:
            await caller.say("start", request={"text": "A long text. " * 100, "format": "pcm"})
            await caller.hear("audio")
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/tts", json={"text": TEXT}, timeout=0.3)
            await busy.metric_becomes("kingfisher_sessions", 1)


LAST_CHUNK = b"0\r\n\r\n"


def request_bytes(**body: Any) -> bytes:
    content = json.dumps(body).encode()
    return b"POST /v1/tts HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(content) + content


async def test_who_does_not_read_is_dropped_and_the_place_freed() -> None:
    with running(config={"stall_s": 0.5}) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(request_bytes(text="A long text. " * 700, format="pcm", sample_rate=48_000))
        await writer.drain()
        await server.metric_becomes("kingfisher_clients_dropped_total", 1)
        await server.metric_becomes("kingfisher_sessions", 0)
        heard = await reader.read()
        assert heard.startswith(b"HTTP/1.1 200 OK")
        assert not heard.endswith(LAST_CHUNK)
        writer.close()


def test_who_plays_what_he_takes_gets_all_of_it() -> None:
    """He takes nothing for longer than a client may that is silent: there is sound enough in his and our buffers."""
    rate_hz, seconds = 8_000, 7.0
    with running(config={"stall_s": 0.5}) as server, socket.create_connection(("127.0.0.1", server.port)) as player:
        player.sendall(request_bytes(text="A long text. " * 300, format="pcm", sample_rate=rate_hz))
        began_s, taken = time.monotonic(), 0
        while (played_s := time.monotonic() - began_s) < seconds:
            taken += len(player.recv(max(0, round(played_s * rate_hz * 2) - taken) or 1))
            time.sleep(0.01)
        while piece := player.recv(1 << 20):
            taken += len(piece)
            if piece.endswith(LAST_CHUNK):
                break
    assert taken / rate_hz / 2 == pytest.approx(240, rel=0.02)
