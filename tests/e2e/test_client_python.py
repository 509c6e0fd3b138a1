"""The Python client on a socket whose far side misbehaves in every known way (and behaves, too)."""

from __future__ import annotations

import asyncio
import resource
import threading
import wave
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kingfisher_client import (
    AsyncClient,
    Audio,
    Cancelled,
    Client,
    ConnectFailed,
    ConnectRefused,
    DeadlineExceeded,
    Event,
    Finish,
    Flushed,
    MisuseError,
    ProtocolError,
    ServerError,
    StreamBroken,
    Timeouts,
)

from tests.fake_live_server import Peer, Refusal, live_server

CHUNK = b"\1\0" * 960
CHUNK_MS = 40.0


async def one_reply(peer: Peer) -> None:
    """Two chunks and a finish for the first stream."""
    await peer.until("stop")
    await peer.audio(CHUNK)
    await peer.audio(CHUNK)
    await peer.send("finish", reason="stop")


async def replies(peer: Peer) -> None:
    """A chunk and a finish for each stream, its number in the samples."""
    number = 0
    while True:
        number += 1
        await peer.until("stop")
        await peer.audio(bytes([number, 0]) * 960, utterance=number)
        await peer.send("finish", reason="stop")


async def sound_of(client: AsyncClient, text: str = "Hello.", **request: object) -> bytes:
    return b"".join([audio.data async for audio in client.speak(text, **request)])


# ---- a stream's life ---------------------------------------------------------------------------------------


async def test_a_text_becomes_sound_and_the_request_goes_through() -> None:
    async with live_server(one_reply) as server, AsyncClient(server.url) as client:
        assert await sound_of(client, "Hello.", format="pcm", seed=7) == CHUNK * 2
    start, text, stop = server.peers[0].received
    assert start == {"event": "start", "request": {"format": "pcm", "seed": 7}}
    assert (text["text"], stop["event"]) == ("Hello.", "stop")


async def test_pieces_are_sent_as_they_come() -> None:
    heard_first = asyncio.Event()

    async def behave(peer: Peer) -> None:
        await peer.until("text")
        await peer.audio(CHUNK)
        await peer.until("stop")
        await peer.send("finish", reason="stop")

    async def pieces() -> AsyncIterator[str]:
        yield "One. "
        await heard_first.wait()  # would never come if the client collected first
        yield "Two."

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        async for _ in client.speak(pieces()):
            heard_first.set()
    assert server.texts == ["One. Two."]


async def test_streams_follow_one_another_on_one_socket_each_with_its_settings() -> None:
    async with live_server(replies) as server, AsyncClient(server.url) as client:
        assert (await sound_of(client, voice="rowan", sample_rate=24000))[:1] == b"\1"
        assert (await sound_of(client, voice="hazel", sample_rate=8000))[:1] == b"\2"
        assert client.connects == 1
    starts = [m["request"] for m in server.peers[0].received if m["event"] == "start"]
    assert starts == [{"voice": "rowan", "sample_rate": 24000}, {"voice": "hazel", "sample_rate": 8000}]


async def test_the_iteration_ends_with_finish_though_the_socket_stays_open() -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("stop")
        await peer.audio(CHUNK)
        await peer.send("audio", audio=None)
        await peer.send("audio", audio=b"")
        await peer.send("of a later server", field=1)
        await peer.audio(CHUNK)
        await peer.send("finish", reason="stop")

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        events = [event async for event in client.speak_events("Hello.")]
    assert [type(event) for event in events] == [Audio, Audio, Finish]


async def test_two_streams_at_once_are_refused_before_anything_is_sent() -> None:
    async with live_server(one_reply) as server, AsyncClient(server.url) as client, client.stream():
        with pytest.raises(MisuseError, match="second client"):
            async with client.stream():
                pass


async def test_text_after_stop_is_a_misuse_and_harms_nothing() -> None:
    async with live_server(one_reply) as server, AsyncClient(server.url) as client, client.stream() as stream:
        await stream.send_text("Hello.")
        await stream.stop()
        with pytest.raises(MisuseError, match="after stop"):
            await stream.send_text("More.")
        assert isinstance([event async for event in stream][-1], Finish)


# ---- barge-in ----------------------------------------------------------------------------------------------


async def test_after_cancel_nothing_of_the_old_utterance_is_yielded() -> None:
    """What lay in the socket, what the server had not yet held back, and a flush that crossed."""

    async def behave(peer: Peer) -> None:
        await peer.until("flush")
        for _ in range(5):
            await peer.audio(CHUNK, utterance=1)
        cancel = await peer.until("cancel")
        assert cancel["played_ms"] == 41
        await peer.audio(CHUNK, utterance=1)
        await peer.send("flushed", seq=1, audio_ms=240.0)
        await peer.send("cancelled", utterance=1, spoken_text="One", remaining_text="two.", audio_ms=240.0)
        await peer.audio(CHUNK, utterance=1)
        await peer.until("stop")
        await peer.audio(CHUNK, utterance=2)
        await peer.send("finish", reason="stop")

    async with live_server(behave) as server, AsyncClient(server.url) as client, client.stream() as stream:
        await stream.send_text("One two. ")
        await stream.flush()
        events: list[Event] = []
        async for event in stream:
            events.append(event)
            if len(events) == 1:
                await stream.cancel(played_ms=40.6)
                await stream.send_text("Three.")
                await stream.stop()
    assert [type(event) for event in events] == [Audio, Cancelled, Audio, Finish]
    assert [event.utterance for event in events if isinstance(event, Audio)] == [1, 2]


async def test_a_cancel_that_crossed_with_finish_does_not_disturb_the_next_stream() -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("stop")
        await peer.audio(CHUNK, utterance=1)
        await peer.until("cancel")
        await peer.send("finish", reason="stop")
        await peer.send("cancelled", utterance=1, spoken_text="", remaining_text="", audio_ms=0.0)
        await peer.until("stop")
        await peer.audio(CHUNK, utterance=2)
        await peer.until("cancel")
        await peer.audio(CHUNK, utterance=2)
        await peer.send("cancelled", utterance=2, spoken_text="Again.", remaining_text="", audio_ms=40.0)
        await peer.send("finish", reason="stop")

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        runs: list[list[Event]] = []
        for _ in range(2):
            runs.append([])
            async with client.stream() as stream:
                await stream.send_text("Hello.")
                await stream.stop()
                async for event in stream:
                    runs[-1].append(event)
                    if isinstance(event, Audio):
                        await stream.cancel()
        assert client.connects == 1
    assert [type(event) for event in runs[0]] == [Audio, Finish]
    assert [type(event) for event in runs[1]] == [Audio, Cancelled, Finish]


async def test_leaving_a_stream_early_closes_the_socket_and_the_next_one_is_clean() -> None:
    async with live_server(replies) as server, AsyncClient(server.url) as client:
        async with client.stream() as stream:
            await stream.send_text("Never mind.")
        assert await sound_of(client)
        assert client.connects == 2


# ---- broken streams never look finished ----------------------------------------------------------------------


@pytest.mark.parametrize(("end", "code"), [("close", 1000), ("drain", 1012), ("reset", None)])
async def test_a_socket_that_ends_midway_raises(end: str, code: int | None) -> None:
    was_heard = asyncio.Event()

    async def behave(peer: Peer) -> None:
        await peer.until("stop")
        await peer.audio(CHUNK)
        await was_heard.wait()
        if code is None:
            peer.reset()
        else:
            await peer.socket.close(code, end)

    async def listen(client: AsyncClient) -> None:
        async for _ in client.speak("Hello."):
            was_heard.set()

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        with pytest.raises(StreamBroken) as caught:
            await listen(client)
    assert (caught.value.audio_ms, caught.value.close_code) == (CHUNK_MS, code)
    assert client.connects == 1, "a stream that was heard in part is not said again"


async def test_a_finish_with_an_error_raises_its_code_and_the_socket_stays() -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("stop")
        await peer.audio(CHUNK)
        await peer.send("finish", reason="error", code="overloaded", message="no slot")
        await replies(peer)

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        with pytest.raises(ServerError, match="no slot") as caught:
            await sound_of(client)
        assert (caught.value.code, caught.value.audio_ms) == ("overloaded", CHUNK_MS)
        assert await sound_of(client)
        assert client.connects == 1


@pytest.mark.parametrize(
    "message", [{"event": "error", "code": "too_big"}, {"event": "quota", "code": "too_big"}], ids=["error", "unknown"]
)
async def test_any_event_that_says_no_is_raised(message: dict[str, str]) -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("text")
        await peer.send(message["event"], error="no", code=message["code"])

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        with pytest.raises(ServerError) as caught:
            await sound_of(client)
    assert caught.value.code == "too_big"


async def test_what_is_not_the_protocol_is_raised() -> None:
    async def behave(peer: Peer) -> None:
        await peer.socket.send('{"event": "audio"}')

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        with pytest.raises(ProtocolError):
            await sound_of(client)


async def test_a_failing_source_of_text_ends_the_stream_with_its_own_error() -> None:
    async def pieces() -> AsyncIterator[str]:
        yield "Hello "
        raise LookupError("the model went away")

    async with live_server(one_reply) as server, AsyncClient(server.url) as client:
        with pytest.raises(LookupError, match="went away"):
            async for _ in client.speak(pieces()):
                pass


# ---- the handshake -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "is_retryable"),
    [
        (Refusal(401, "bad_key"), False),
        (Refusal(404, "unknown_voice"), False),
        (Refusal(429, "too_many_sessions", retry_after_s=2), True),
        (Refusal(503, "draining", retry_after_s=5), True),
    ],
    ids=lambda value: getattr(value, "code", None),
)
async def test_a_refused_handshake_says_why(refusal: Refusal, is_retryable: bool) -> None:
    async with live_server(one_reply, refusal=refusal) as server:
        with pytest.raises(ConnectRefused) as caught:
            await AsyncClient(server.url, api_key="secret-key").connect()
    error = caught.value
    assert (error.status, error.code, error.retry_after_s) == (refusal.status, refusal.code, refusal.retry_after_s)
    assert error.is_retryable is is_retryable
    assert "secret-key" not in str(error)


async def test_no_server_and_no_address_are_connect_errors() -> None:
    for url in ("ws://127.0.0.1:1/v1/tts/live?api_key=secret-key", "not an address"):
        with pytest.raises(ConnectFailed) as caught:
            await AsyncClient(url).connect()
        assert "secret-key" not in str(caught.value)


async def test_key_and_voice_travel_with_the_handshake() -> None:
    async with live_server(one_reply) as server:
        client = AsyncClient(server.url + "?voice=old&x=1", api_key="k", voice="a b")
        await client.connect()
        await client.close()
    assert server.requests[0].headers["Authorization"] == "Bearer k"
    assert server.requests[0].path == "/v1/tts/live?x=1&voice=a+b"


# ---- a quiet spell ------------------------------------------------------------------------------------------


async def test_an_idle_socket_that_was_closed_is_replaced_and_nothing_is_lost() -> None:
    async def behave(peer: Peer) -> None:
        await one_reply(peer)
        if peer.connection == 1:
            await peer.socket.close(1000, "idle")

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        await sound_of(client, "First.")
        await server.peers[0].gone()
        assert await sound_of(client, "Second.") == CHUNK * 2
        assert client.connects == 2
    assert server.texts == ["First.", "Second."]


async def test_a_socket_that_dies_between_text_and_flush_is_replaced_and_all_is_said_again() -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("text")
        if peer.connection == 1:
            await peer.socket.close(1000, "idle")
            return
        await peer.until("flush")
        await peer.audio(CHUNK)
        await peer.send("flushed", seq=1, audio_ms=CHUNK_MS)
        await peer.until("stop")
        await peer.send("finish", reason="stop")

    async with live_server(behave) as server, AsyncClient(server.url) as client, client.stream() as stream:
        await stream.send_text("Half a sentence ")
        await server.peers[0].gone()
        await stream.send_text("and the rest.")
        await stream.flush()
        kinds = []
        async for event in stream:
            kinds.append(type(event))
            if isinstance(event, Flushed):
                await stream.stop()
    assert kinds == [Audio, Flushed, Finish]
    assert server.texts[1] == "Half a sentence and the rest."
    assert client.connects == 2


async def test_sender_and_reader_that_both_meet_the_dead_socket_replace_it_once() -> None:
    async def behave(peer: Peer) -> None:
        if peer.connection == 1:
            await peer.until("start")
            peer.reset()
            return
        await one_reply(peer)

    async def pieces() -> AsyncIterator[str]:
        for word in "one two three four five six seven eight".split():
            yield word + " "
            await asyncio.sleep(0)

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        assert b"".join([audio.data async for audio in client.speak(pieces())]) == CHUNK * 2
        assert client.connects == 2
    assert server.texts[1] == "one two three four five six seven eight "


async def test_a_server_that_always_hangs_up_is_given_up() -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("start")
        await peer.socket.close(1000)

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        with pytest.raises(StreamBroken):
            await sound_of(client)
        assert client.connects == 2


# ---- deadlines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("events", "meaning"), [(0, "no audio for"), (3, "no further audio for")])
async def test_a_server_that_goes_quiet_is_a_timeout_and_the_next_stream_works(events: int, meaning: str) -> None:
    async def behave(peer: Peer) -> None:
        if peer.connection == 2:
            return await one_reply(peer)
        await peer.until("stop")
        for _ in range(events):
            await peer.audio(CHUNK)

    timeouts = Timeouts(first_audio_s=0.2, audio_gap_s=0.2)
    async with live_server(behave) as server, AsyncClient(server.url, timeouts=timeouts) as client:
        with pytest.raises(DeadlineExceeded, match=meaning) as caught:
            await sound_of(client)
        assert caught.value.audio_ms == events * CHUNK_MS
        assert await sound_of(client) == CHUNK * 2


async def test_messages_without_sound_do_not_put_the_deadline_off() -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("stop")
        while True:
            await peer.send("log", message="still here")
            await asyncio.sleep(0.01)

    async with live_server(behave) as server:
        with pytest.raises(DeadlineExceeded):
            await sound_of(AsyncClient(server.url, timeouts=Timeouts(first_audio_s=0.2)))


async def test_the_total_deadline_ends_a_stream_that_goes_on_for_ever() -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("stop")
        while True:
            await peer.audio(CHUNK)
            await asyncio.sleep(0.01)

    async with live_server(behave) as server:
        with pytest.raises(DeadlineExceeded, match="the stream took over"):
            await sound_of(AsyncClient(server.url, timeouts=Timeouts(total_s=0.2)))


async def test_an_agent_that_owes_nothing_is_not_timed_out() -> None:
    """Only what follows the flush is under the deadline, not the user's thinking before it."""
    may_answer = asyncio.Event()

    async def behave(peer: Peer) -> None:
        await peer.until("text")
        await may_answer.wait()
        await peer.audio(CHUNK)
        await peer.until("stop")
        await peer.send("finish", reason="stop")

    async with live_server(behave) as server:
        client = AsyncClient(server.url, timeouts=Timeouts(first_audio_s=0.1, audio_gap_s=0.1))
        async with client, client.stream() as stream:
            await stream.send_text("Hello.")
            asyncio.get_running_loop().call_later(0.3, may_answer.set)
            kinds = []
            async for event in stream:
                kinds.append(type(event))
                if isinstance(event, Audio):
                    await stream.stop()
    assert kinds == [Audio, Finish]


# ---- bounds ------------------------------------------------------------------------------------------------


async def test_audio_that_nobody_takes_stays_with_the_server() -> None:
    """The server writes as fast as it can; the client stops reading and memory stays flat."""
    sent_bytes = 0
    piece = b"\0\1" * (32 << 10)

    async def behave(peer: Peer) -> None:
        nonlocal sent_bytes
        await peer.until("start")
        while True:
            await peer.audio(piece)
            sent_bytes += len(piece)

    async with live_server(behave) as server, AsyncClient(server.url) as client, client.stream() as stream:
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await anext(aiter(stream))
        earlier = -1
        while sent_bytes != earlier:  # until the pipe is full
            earlier = sent_bytes
            await asyncio.sleep(0.2)
        assert sent_bytes < 32 << 20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 << 10


@pytest.mark.parametrize("megabytes", [1.0, 1.1, 8.0])
async def test_large_references_and_large_audio_pass(megabytes: float) -> None:
    clip = bytes(round(megabytes * (1 << 20)))

    async def behave(peer: Peer) -> None:
        start = await peer.until("start")
        await peer.until("stop")
        await peer.audio(start["request"]["references"][0]["audio"])
        await peer.send("finish", reason="stop")

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        assert await sound_of(client, references=[{"audio": clip, "text": "Hi."}]) == clip


async def test_a_message_over_the_servers_limit_is_refused_here_and_names_it() -> None:
    async def behave(peer: Peer) -> None:
        await peer.send("ready", voice="rowan", limits={"max_message_bytes": 2000})
        await replies(peer)

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        await sound_of(client)  # reads `ready`
        with pytest.raises(MisuseError, match="reads at most 2000"):
            await sound_of(client, references=[{"audio": bytes(2000), "text": "Hi."}])
        assert await sound_of(client)


# ---- the wrapper without asyncio --------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[str]:
    """A server in a loop of its own, for tests without one."""
    loop = asyncio.new_event_loop()
    urls: asyncio.Queue[str] = asyncio.Queue()
    over = asyncio.Event()

    async def serve() -> None:
        async with live_server(replies) as server:
            await urls.put(server.url)
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    yield asyncio.run_coroutine_threadsafe(urls.get(), loop).result(timeout=10)
    loop.call_soon_threadsafe(over.set)
    thread.join(timeout=10)
    loop.close()


def test_the_sync_client_speaks_pieces_and_saves(served: str, tmp_path: Path) -> None:
    path = tmp_path / "hello.wav"
    with Client(served) as client:
        assert [audio.data for audio in client.speak(word for word in ("Hello ", "there."))] == [b"\1\0" * 960]
        assert isinstance(client.save(path, "Hello."), Finish)
    with wave.open(str(path)) as file:
        assert file.readframes(file.getnframes()) == b"\2\0" * 960


def test_a_sync_generator_may_be_left_early(served: str) -> None:
    with Client(served) as client:
        for _ in client.speak("Hello."):
            break
        assert len(list(client.speak("Again."))) == 1


def test_a_sync_stream_talks_both_ways(served: str) -> None:
    with Client(served) as client, client.stream(format="pcm") as stream:
        stream.send_text("Hello.")
        stream.stop()
        assert [type(event) for event in stream] == [Audio, Finish]


def test_a_sync_client_that_cannot_connect_says_so_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ConnectFailed), Client("ws://127.0.0.1:1/"):
        pass
    assert threading.active_count() == before
