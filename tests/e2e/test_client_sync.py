"""The Python client without asyncio."""

from __future__ import annotations

import asyncio
import threading
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
from kingfisher_client import Audio, Client, ConnectFailed, Finish

from tests.fake_live_server import live_server, replies


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
