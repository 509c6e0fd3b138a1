"""The asyncio client: one socket, one stream at a time, any number of streams after one another.

    async with AsyncClient("ws://127.0.0.1:8000/v1/tts/live") as client:
        async for audio in client.speak("Hello there.", format="pcm"):
            play(audio.data)

The client never buffers without bound: what nobody takes stays in the socket, and the server notices.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConcurrencyError, ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.protocol import State

from kingfisher_client.deadlines import Timeouts
from kingfisher_client.errors import ConnectFailed, ConnectRefused, MisuseError
from kingfisher_client.events import Audio, Event, Finish
from kingfisher_client.request import SpeechRequest, StreamRequest
from kingfisher_client.sound import save_wav
from kingfisher_client.stream import Stream
from kingfisher_client.wire import pack

__all__ = ["DEFAULT_URL", "AsyncClient", "send_all"]

DEFAULT_URL = "ws://127.0.0.1:8000/v1/tts/live"
MAX_MESSAGE_BYTES = 16 << 20
"""Largest message read; and sent until the server's `ready` says otherwise."""
CLOSE_TIMEOUT_S = 1.0


class AsyncClient:
    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        voice: str | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        """`voice` is prefilled by the server as soon as the socket opens."""
        self._url, self._api_key = _with_voice(url, voice), api_key
        self.timeouts = timeouts or Timeouts()
        self.max_message_bytes = MAX_MESSAGE_BYTES
        self._socket: ClientConnection | None = None
        self._has_stream = False
        self._stray_cancelled = 0
        self.connects = 0
        """Handshakes made so far."""

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> ClientConnection:
        """A live socket: the one at hand, or a new one if it was closed meanwhile. Raises ConnectFailed."""
        if self._socket is not None and self._socket.state is State.OPEN:
            return self._socket
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else None
        try:
            socket = await connect(
                self._url,
                additional_headers=headers,
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=self.timeouts.connect_s,
                close_timeout=CLOSE_TIMEOUT_S,
            )
            # The server closes a socket after one stream unless its client shows that it stays.
            await socket.send(pack("ping"))
        except InvalidStatus as error:
            raise _refused(error) from None
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
            raise ConnectFailed(f"{self._url.split('?')[0]}: {error}") from None
        self.connects += 1
        self._socket, self._stray_cancelled = socket, 0
        return socket

    async def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            # The answer to the close frame stands behind the audio that nobody took.
            rest = asyncio.create_task(_discard(socket))
            await socket.close()
            await rest

    @asynccontextmanager
    async def stream(self, **request: Unpack[StreamRequest]) -> AsyncIterator[Stream]:
        """Open a stream; `request`: see StreamRequest."""
        if self._has_stream:
            raise MisuseError("this client has a stream already; use a second client to speak at the same time")
        self._has_stream = True
        stream = Stream(self, request)
        try:
            await stream.open()
            yield stream
        finally:
            self._has_stream = False
            if not stream.is_finished:
                # Nobody wants the rest: closing is the surest cancel, and the next stream gets a clean socket.
                await self.close()

    async def speak(
        self, text: str | AsyncIterable[str] | Iterable[str], **request: Unpack[StreamRequest]
    ) -> AsyncGenerator[Audio, None]:
        """Speak a text, or pieces of it as they come, and yield the audio in order."""
        async with aclosing(self.speak_events(text, **request)) as events:
            async for event in events:
                if isinstance(event, Audio):
                    yield event

    async def speak_events(
        self, text: str | AsyncIterable[str] | Iterable[str], **request: Unpack[StreamRequest]
    ) -> AsyncGenerator[Event, None]:
        """Like `speak`, with every event up to `Finish`."""
        async with self.stream(**request) as stream:
            sender = asyncio.create_task(send_all(stream, text))
            try:
                async for event in stream:
                    yield event
            finally:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)

    async def save(
        self, path: Path | str, text: str, *, sample_rate: int = 24_000, **request: Unpack[SpeechRequest]
    ) -> Finish:
        """Speak into a WAV file."""
        pcm = bytearray()
        async with aclosing(self.speak_events(text, format="pcm", sample_rate=sample_rate, **request)) as events:
            async for event in events:
                if isinstance(event, Audio):
                    pcm += event.data
        assert isinstance(event, Finish), "a stream that raises nothing ends in finish"
        save_wav(Path(path), bytes(pcm), sample_rate)
        return event

    # ---- for streams: a `cancel` that crossed with `finish` is answered in the next stream -----------------

    def expect_stray_cancelled(self, count: int) -> None:
        self._stray_cancelled = count

    def take_stray_cancelled(self) -> bool:
        """Whether a `cancelled` that came now answers an earlier stream."""
        if self._stray_cancelled == 0:
            return False
        self._stray_cancelled -= 1
        return True


async def send_all(stream: Stream, text: str | AsyncIterable[str] | Iterable[str]) -> None:
    """All of the text, and `stop`. A failure here, be it of the caller's iterator, must reach whoever waits for the
    audio."""
    try:
        if isinstance(text, str):
            await stream.send_text(text)
        elif isinstance(text, AsyncIterable):
            async for piece in text:
                await stream.send_text(piece)
        else:
            for piece in text:
                await stream.send_text(piece)
        await stream.stop()
    except Exception as error:
        await stream.fail(error)


async def _discard(socket: ClientConnection) -> None:
    """Read to the end, unless a stream still does (then it meets the end itself)."""
    with suppress(ConnectionClosed, ConcurrencyError):
        while True:
            await socket.recv()


def _with_voice(url: str, voice: str | None) -> str:
    if voice is None:
        return url
    parts = urlsplit(url)
    query = [*((k, v) for k, v in parse_qsl(parts.query) if k != "voice"), ("voice", voice)]
    return urlunsplit(parts._replace(query=urlencode(query)))


def _refused(error: InvalidStatus) -> ConnectRefused:
    response = error.response
    try:
        body = json.loads(response.body or b"{}")
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    retry = response.headers.get("Retry-After")
    return ConnectRefused(
        response.status_code,
        str(body.get("code", "refused")),
        str(body.get("message", response.reason_phrase)),
        float(retry) if retry and retry.isdigit() else None,
    )
