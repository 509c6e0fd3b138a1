"""One stream, from `start` to `finish`, on the socket of its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from kingfisher_client.deadlines import Deadlines
from kingfisher_client.errors import DeadlineExceeded, MisuseError, ServerError, StreamBroken, StreamError
from kingfisher_client.events import Audio, Cancelled, Event, Finish, Flushed, Ready
from kingfisher_client.request import StreamRequest
from kingfisher_client.wire import pack, parse

if TYPE_CHECKING:
    from kingfisher_client.client import AsyncClient

__all__ = ["Stream"]


class Stream:
    """Send from one task and iterate in another; or send, `stop`, and then iterate in the same."""

    def __init__(self, client: AsyncClient, request: StreamRequest) -> None:
        self._client, self._request = client, request
        self._deadlines = Deadlines(client.timeouts, asyncio.get_running_loop().time())
        self._waiting: asyncio.Timeout | None = None
        self._socket: ClientConnection | None = None
        self._sending = asyncio.Lock()
        """Held while frames go out, so that a replaced socket gets them whole and in order."""
        self._unheard: list[bytes] = []
        """What would have to be said again on a new socket; dropped once sound has come."""
        self._has_recovered = False
        self._failure: Exception | None = None
        self._is_stopped = False
        self._flushes_owed = 0
        self._cancels_owed = 0
        self._cancelled_through = -1
        """Number of the last utterance that was cancelled."""
        self.audio_ms = 0.0
        """Sound received so far."""
        self.is_finished = False

    # ---- sending -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Send `start`; `AsyncClient.stream` does it."""
        async with self._sending:
            self._socket = await self._client.connect()
        await self._send(pack("start", request=self._request))

    async def send_text(self, text: str) -> None:
        """Appended verbatim: the spaces between words are the caller's."""
        self._check_open("send_text")
        await self._send(pack("text", text=text))

    async def flush(self) -> None:
        """Speak what was sent; `Flushed` follows its last audio."""
        self._check_open("flush")
        self._flushes_owed += 1
        self._update_deadline()
        await self._send(pack("flush"))

    async def stop(self) -> None:
        """No more text; the iteration ends with `Finish`."""
        self._check_open("stop")
        self._is_stopped = True
        self._update_deadline()
        await self._send(pack("stop"))

    async def cancel(self, played_ms: float | None = None) -> None:
        """Barge-in. From here on nothing of the utterance is yielded, wherever it still is; `Cancelled` tells what
        was spoken. Text sent afterwards begins the next utterance. After `Finish` there is nothing to cancel."""
        if self.is_finished:
            return
        self._cancels_owed += 1
        self._flushes_owed = 0
        self._update_deadline()
        if self._unheard:
            self._unheard = [pack("start", request={**self._request, "text": ""})]
        whole_ms = None if played_ms is None else round(played_ms)
        await self._send(pack("cancel", played_ms=whole_ms), is_kept=False)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    async def fail(self, error: Exception) -> None:
        """End the stream from this side: whoever iterates gets `error`."""
        self._failure = error
        await self._client.close()

    def _check_open(self, call: str) -> None:
        if self.is_finished or self._is_stopped:
            raise MisuseError(f"{call} after {'the end of the stream' if self.is_finished else 'stop'}")

    async def _send(self, frame: bytes, *, is_kept: bool = True) -> None:
        limit = self._client.max_message_bytes
        if len(frame) > limit:
            raise MisuseError(f"the message has {len(frame)} bytes; the server reads at most {limit}")
        async with self._sending:
            assert self._socket is not None, "the stream is open"
            if is_kept and not self.audio_ms:
                self._unheard.append(frame)
            try:
                await self._socket.send(frame)
            except ConnectionClosed as error:
                await self._recover(error)

    # ---- receiving -----------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while not self.is_finished:
            try:
                event = parse(await self._receive())
            except StreamError as error:
                error.audio_ms = self.audio_ms
                if isinstance(error, ServerError) and error.is_finish:
                    self._finish()
                raise
            if event is not None and self._is_news(event):
                yield event

    def _is_news(self, event: Event) -> bool:
        """Keep the books; False for what belongs to an utterance that the caller has cancelled."""
        is_current = self._cancels_owed == 0
        match event:
            case Audio():
                self.audio_ms += event.duration_ms
                self._unheard = []
                self._deadlines.heard(asyncio.get_running_loop().time())
                return is_current and event.utterance > self._cancelled_through
            case Flushed():
                if is_current:
                    self._flushes_owed = max(0, self._flushes_owed - 1)
                    self._update_deadline()
                return is_current
            case Cancelled():
                if self._client.take_stray_cancelled():
                    return False
                self._cancels_owed = max(0, self._cancels_owed - 1)
                self._cancelled_through = event.utterance
                self._update_deadline()
            case Ready():
                self._client.max_message_bytes = event.limits.get("max_message_bytes", self._client.max_message_bytes)
            case Finish():
                self._finish()
        return True

    def _finish(self) -> None:
        self.is_finished = True
        self._client.expect_stray_cancelled(self._cancels_owed)

    async def _receive(self) -> bytes | str:
        while True:
            assert self._socket is not None, "the stream is open"
            socket = self._socket
            try:
                async with asyncio.timeout_at(self._deadlines.next()[0]) as self._waiting:
                    return await socket.recv()
            except TimeoutError:
                await self._client.close()
                raise DeadlineExceeded(self._deadlines.next()[1]) from None
            except ConnectionClosed as error:
                async with self._sending:
                    if self._socket is socket:
                        await self._recover(error)
            finally:
                self._waiting = None

    def _update_deadline(self) -> None:
        """After a change of what is owed; it counts for a wait under way too."""
        if self._is_stopped or self._flushes_owed or self._cancels_owed:
            self._deadlines.owe(asyncio.get_running_loop().time())
        else:
            self._deadlines.settle()
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(self._deadlines.next()[0])

    async def _recover(self, error: ConnectionClosed) -> None:
        """Replace the socket, with `_sending` held. An idle socket that was closed is replaced once, and what was
        said on it is said again. Once sound has come that would repeat it: then the stream is broken."""
        if self._failure is not None:
            raise self._failure
        if self._has_recovered or not self._unheard or self._cancels_owed:
            raise _broken(error)
        self._has_recovered = True
        self._socket = await self._client.connect()
        try:
            for frame in self._unheard:
                await self._socket.send(frame)
        except ConnectionClosed as again:
            raise _broken(again) from None


def _broken(error: ConnectionClosed) -> StreamBroken:
    code = error.rcvd.code if error.rcvd is not None else None
    return StreamBroken(f"the connection ended before finish: {error}", code)
