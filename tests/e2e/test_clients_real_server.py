"""Both clients against the real server (tones for a voice): what only the two ends together can show."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kingfisher_client import (
    AsyncClient,
    Audio,
    Cancelled,
    ConnectRefused,
    Event,
    Finish,
    Flushed,
    OpusPacketDecoder,
    Ready,
    ServerError,
)

from tests.certificates import self_signed
from tests.server_process import ROOT, ServerProcess, server_process

LONG = "The first turn is long enough to be interrupted, as the caller has something to say. "


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--model", "null", "--slots", "4", "--idle-s", "2") as running:
        yield running


def pitch_hz(pcm: bytes, rate_hz: int) -> float:
    samples = np.frombuffer(pcm, np.int16).astype(float)
    return float(np.argmax(np.abs(np.fft.rfft(samples)))) / len(samples) * rate_hz


async def test_the_first_event_is_ready_and_the_last_is_finish(server: ServerProcess) -> None:
    async with AsyncClient(server.ws, voice="high") as client:
        events = [event async for event in client.speak_events("Hello there.", format="pcm")]
    ready, finish = events[0], events[-1]
    assert isinstance(ready, Ready)
    assert isinstance(finish, Finish)
    assert (ready.voice, ready.sample_rate) == ("high", 24_000)
    assert ready.limits["max_message_bytes"] == 16 << 20
    assert finish.usage["chars"] == len("Hello there.")
    assert finish.ttfa_ms is not None
    sound = [event for event in events if isinstance(event, Audio)]
    assert sum(audio.duration_ms for audio in sound) == pytest.approx(finish.usage["audio_ms"], abs=1)
    assert [audio.seq for audio in sound] == list(range(len(sound)))


async def test_word_times_come_by_chunk_and_replace_one_another(server: ServerProcess) -> None:
    """These are estimates, as tones have no words: the times of a chunk come behind its sound."""
    heard: dict[int, list[str]] = {}
    async with AsyncClient(f"{server.ws}/with-timestamp") as client:
        async for audio in client.speak("Hello there, you. And a second sentence.", format="pcm"):
            if audio.alignment is not None:
                heard[audio.chunk_seq] = [segment.text for segment in audio.alignment.segments]
                ends = [segment.end for segment in audio.alignment.segments]
                assert ends == sorted(ends)
                assert ends[-1] <= audio.alignment.audio_duration
    assert [word for words in heard.values() for word in words] == "Hello there, you. And a second sentence.".split()


@pytest.mark.parametrize("voice", ["low", "high"])
async def test_packets_decode_to_the_voice(server: ServerProcess, voice: str) -> None:
    decoder = OpusPacketDecoder()
    async with AsyncClient(server.ws, voice=voice) as client:
        spoken = client.speak(LONG, format="opus_packets", max_lead_s=30.0)
        packets = [packet async for audio in spoken for packet in audio.packets]
    assert pitch_hz(decoder.decode(packets), 48_000) == pytest.approx({"low": 300, "high": 700}[voice], abs=3)


async def test_settings_count_for_the_very_next_stream_on_the_same_socket(server: ServerProcess) -> None:
    async with AsyncClient(server.ws) as client:
        for voice, hz, rate_hz in [("low", 300, 24_000), ("high", 700, 8_000), ("low", 300, 48_000)]:
            request = {"voice": voice, "format": "pcm", "sample_rate": rate_hz, "max_lead_s": 30.0}
            pcm = b"".join([audio.data async for audio in client.speak(LONG, **request)])
            assert pitch_hz(pcm, rate_hz) == pytest.approx(hz, abs=3)
        assert client.connects == 1


async def test_a_turn_is_interrupted_and_the_next_one_follows_in_the_same_stream(server: ServerProcess) -> None:
    events: list[Event] = []
    async with AsyncClient(server.ws) as client, client.stream(format="pcm", max_lead_s=30.0) as stream:
        await stream.send_text(LONG)
        await stream.flush()
        async for event in stream:
            events.append(event)
            if isinstance(event, Audio) and stream.audio_ms == event.duration_ms:
                await stream.cancel(played_ms=100)
                await stream.send_text("The second turn.")
                await stream.flush()
            if isinstance(event, Flushed):
                await stream.stop()
    (cancelled,) = [event for event in events if isinstance(event, Cancelled)]
    assert LONG.startswith(cancelled.spoken_text)
    assert cancelled.remaining_text
    utterances = [event.utterance for event in events if isinstance(event, Audio)]
    assert utterances[0] == cancelled.utterance
    assert set(utterances[1:]) == {cancelled.utterance + 1}
    assert events.index(cancelled) == events.index(next(e for e in events if isinstance(e, Audio))) + 1


async def test_after_the_servers_idle_close_the_next_sentence_is_whole(server: ServerProcess) -> None:
    async with AsyncClient(server.ws) as client:
        first = [audio.duration_ms async for audio in client.speak("Hello there.", format="pcm")]
        socket = await client.connect()
        async with asyncio.timeout(20):
            await socket.wait_closed()
        assert socket.close_code == 1000
        second = [audio.duration_ms async for audio in client.speak("Hello there.", format="pcm")]
        assert sum(second) == pytest.approx(sum(first), abs=0.01)  # rounded on the wire, and cut anew each time
        assert client.connects == 2


async def test_every_no_of_the_server_has_its_type_and_code(server: ServerProcess) -> None:
    async with AsyncClient(server.ws) as client:
        for request, code in [({"format": "mp4"}, "bad_request"), ({"voice": "nobody"}, "unknown_voice")]:
            with pytest.raises(ServerError) as failed:
                await anext(client.speak("Hello.", **request))
            assert failed.value.code == code
        assert client.connects == 1, "a bad start leaves the socket usable"
    with pytest.raises(ConnectRefused) as refused:
        await AsyncClient(server.ws, voice="nobody").connect()
    assert (refused.value.status, refused.value.code) == (404, "unknown_voice")


async def test_one_session_too_many_is_refused_with_the_time_to_come_back() -> None:
    keys = {"KINGFISHER_API_KEYS": "good-key"}
    with server_process("--model", "null", "--max-sessions", "1", environment=keys) as small:
        with pytest.raises(ConnectRefused) as refused:
            await AsyncClient(small.ws, api_key="bad-key").connect()
        assert (refused.value.status, refused.value.code) == (401, "bad_key")
        async with AsyncClient(small.ws, api_key="good-key"):
            with pytest.raises(ConnectRefused) as refused:
                await AsyncClient(small.ws, api_key="good-key").connect()
            assert (refused.value.status, refused.value.code) == (429, "too_many_sessions")
            assert refused.value.is_retryable
            assert refused.value.retry_after_s


def talk_in_node(server: ServerProcess, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = ["node", str(ROOT / "clients/js/test/talk.js"), server.ws]
    return subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_javascript_client_talks_in_node(server: ServerProcess) -> None:
    result = talk_in_node(server)
    assert result.returncode == 0, result.stderr
    talk = json.loads(result.stdout)
    kinds = [event["type"] for event in talk["events"]]
    assert kinds[-2:] == ["cancelled", "finish"]
    cancelled, finish = talk["events"][-2:]
    assert LONG.startswith(cancelled["spokenText"])
    assert cancelled["remainingText"]
    first, second = sorted(map(int, talk["bytes"]))
    assert (first, second) == (cancelled["utterance"], cancelled["utterance"] + 1)
    assert talk["bytes"][str(second)] / 48 == pytest.approx(36 / 15 * 1000, rel=0.1), "15 characters a second"
    assert finish["ttfaMs"]["total"] > 0
    assert talk["connects"] == 1


def test_the_javascript_client_talks_over_tls_to_whom_node_trusts(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with server_process("--model", "null", tls=(certificate, key)) as secure:
        stranger = talk_in_node(secure)
        assert stranger.returncode != 0
        assert "ConnectFailed" in stranger.stderr
        assert "certificate" in stranger.stderr
        trusted = talk_in_node(secure, {"NODE_EXTRA_CA_CERTS": str(certificate)})
    assert trusted.returncode == 0, trusted.stderr
    assert json.loads(trusted.stdout)["events"][-1]["type"] == "finish"
