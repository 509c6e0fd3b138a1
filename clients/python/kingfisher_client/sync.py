"""The same client for code without asyncio: an event loop of its own in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack

from kingfisher_client.client import DEFAULT_URL, AsyncClient
from kingfisher_client.deadlines import Timeouts
from kingfisher_client.events import Audio, Event, Finish
from kingfisher_client.request import SpeechRequest, StreamRequest
from kingfisher_client.stream import Stream

__all__ = ["Client", "SyncStream"]

T = TypeVar("T")


class Client:
    """`for audio in client.speak("Hello."): …`. Close it, or use `with`."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        voice: str | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        """`voice` is prefilled by the server as soon as the socket opens."""
        self._client = AsyncClient(url, api_key=api_key, voice=voice, timeouts=timeouts)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kingfisher-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        try:
            self._run(self._client.connect())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def speak(self, text: str | Iterable[str], **request: Unpack[StreamRequest]) -> Iterator[Audio]:
        """Audio as it arrives. An iterable of pieces is read in a thread of its own: it may block."""
        pieces = text if isinstance(text, str) else _in_thread(text)
        sound = self._client.speak(pieces, **request)
        try:
            while (audio := self._run(anext(sound, None))) is not None:
                yield audio
        finally:
            self._run(sound.aclose())

    def save(
        self, path: Path | str, text: str, *, sample_rate: int = 24_000, **request: Unpack[SpeechRequest]
    ) -> Finish:
        """Speak into a WAV file."""
        return self._run(self._client.save(path, text, sample_rate=sample_rate, **request))

    @contextmanager
    def stream(self, **request: Unpack[StreamRequest]) -> Iterator[SyncStream]:
        """A stream for talk both ways: send and cancel from any thread, iterate in one."""
        opened = self._client.stream(**request)
        stream = SyncStream(self, self._run(opened.__aenter__()))
        try:
            yield stream
        finally:
            self._run(opened.__aexit__(None, None, None))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Awaitable[T]) -> T:
        """Ctrl-C cancels the work and waits for its end, so that what comes next finds it settled."""
        ended = threading.Event()

        async def watched() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(watched(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait()
            raise


class SyncStream:
    """`Stream`, each call waiting for its end."""

    def __init__(self, client: Client, stream: Stream) -> None:
        self._client, self._stream = client, stream

    def send_text(self, text: str) -> None:
        self._client._run(self._stream.send_text(text))

    def flush(self) -> None:
        self._client._run(self._stream.flush())

    def stop(self) -> None:
        self._client._run(self._stream.stop())

    def cancel(self, played_ms: float | None = None) -> None:
        self._client._run(self._stream.cancel(played_ms))

    def __iter__(self) -> Iterator[Event]:
        events = aiter(self._stream)
        while (event := self._client._run(anext(events, None))) is not None:
            yield event


async def _in_thread(pieces: Iterable[str]) -> AsyncIterator[str]:
    """Iterate something that may block (a file, a generator) without blocking the loop."""
    iterator = iter(pieces)
    while (piece := await asyncio.to_thread(next, iterator, None)) is not None:
        yield piece
