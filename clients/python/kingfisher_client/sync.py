"""The same client for code without asyncio: an event loop of its own in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from kingfisher_client.client import AsyncClient
from kingfisher_client.events import Audio

__all__ = ["Client"]

T = TypeVar("T")


class Client:
    """`for audio in Client(url).speak("Hello."): …`. Takes the arguments of AsyncClient. Not thread-safe."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kingfisher-client", daemon=True)
        self._thread.start()
        self._client = AsyncClient(*arguments, **options)

    def __enter__(self) -> Self:
        self._run(self._client.connect())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def speak(self, text: str | Iterable[str], **request: Any) -> Iterator[Audio]:
        """Audio as it arrives. An iterable of pieces is read in this thread's place, on the loop: it may block."""
        pieces = text if isinstance(text, str) else _in_thread(text)
        events = self._client.speak(pieces, **request)
        try:
            while (audio := self._run(anext(events, None))) is not None:
                yield audio
        finally:
            self._run(events.aclose())  # type: ignore[attr-defined]

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _in_thread(pieces: Iterable[str]) -> AsyncIterator[str]:
    """Iterate something that may block (a file, a generator) without blocking the loop."""
    iterator = iter(pieces)
    while (piece := await asyncio.to_thread(next, iterator, None)) is not None:
        yield piece
