"""The Python client's streams: how they run, how they are interrupted, and how much they hold."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator

import pytest
from kingfisher_client import AsyncClient, Audio, Cancelled, Event, Finish, MisuseError

from tests.fake_live_server import CHUNK, Peer, live_server, one_reply, replies


async def sound_of(client: AsyncClient, text: str = "Hello.", **request: object) -> bytes:
    return b"".join([audio.data async for audio in client.speak(text, **request)])


# ---- a stream's life -----------------------------------------------------------------------------------------


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


# ---- barge-in ------------------------------------------------------------------------------------------------


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


# ---- bounds --------------------------------------------------------------------------------------------------


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
