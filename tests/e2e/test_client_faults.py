"""The Python client on a socket whose far side misbehaves in every known way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from kingfisher_client import (
    AsyncClient,
    Audio,
    ConnectFailed,
    ConnectRefused,
    DeadlineExceeded,
    Finish,
    Flushed,
    ProtocolError,
    ServerError,
    StreamBroken,
    Timeouts,
)

from tests.fake_live_server import CHUNK, CHUNK_MS, Peer, Refusal, live_server, one_reply, replies


async def sound_of(client: AsyncClient, text: str = "Hello.", **request: object) -> bytes:
    return b"".join([audio.data async for audio in client.speak(text, **request)])


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


# ---- the handshake -------------------------------------------------------------------------------------------


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


# ---- a quiet spell -------------------------------------------------------------------------------------------


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


# ---- deadlines -----------------------------------------------------------------------------------------------


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
