"""The asyncio client: one socket, one stream at a time, any number of streams after one another.

    async with AsyncClient("ws://127.0.0.1:8000/v1/tts/live") as client:
        async for audio in client.speak("Hello there.", format="pcm"):
            play(audio.data)

The client never buffers without bound: what nobody takes stays in the socket, and the server notices.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.protocol import State

from kingfisher_client.errors import (
    ConnectFailed,
    ConnectRefused,
    DeadlineExceeded,
    MisuseError,
    StreamBroken,
)
from kingfisher_client.events import Audio, Cancelled, Event, Finish, Flushed
from kingfisher_client.wire import pack, parse

__all__ = ["AsyncClient", "Stream"]

DEFAULT_URL = "ws://127.0.0.1:8000/v1/tts/live"
MAX_MESSAGE_BYTES = 16 << 20


class AsyncClient:
    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        voice: str | None = None,
        connect_timeout_s: float = 10.0,
        first_audio_timeout_s: float = 30.0,
        audio_gap_timeout_s: float = 30.0,
    ) -> None:
        """`voice` is prefilled by the server as soon as the socket opens. The audio deadlines run only while audio
        is owed: after `stop`, or until a `flush` is answered."""
        self._url, self._api_key = _with_voice(url, voice), api_key
        self._connect_timeout_s = connect_timeout_s
        self.first_audio_timeout_s, self.audio_gap_timeout_s = first_audio_timeout_s, audio_gap_timeout_s
        self._socket: ClientConnection | None = None
        self._has_stream = False
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
            self._socket = await connect(
                self._url,
                additional_headers=headers,
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=self._connect_timeout_s,
            )
        except InvalidStatus as error:
            raise _refused(error) from None
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI) as error:
            raise ConnectFailed(f"{self._url.split('?')[0]}: {error}") from None
        self.connects += 1
        return self._socket

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
            self._socket = None

    @asynccontextmanager
    async def stream(self, **request: Any) -> AsyncIterator[Stream]:
        """Open a stream; `request` holds fields of `start.request` (format, voice, sample_rate, seed, …)."""
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

    async def speak(self, text: str | AsyncIterator[str] | Sequence[str], **request: Any) -> AsyncIterator[Audio]:
        """Speak a text, or pieces of it as they come, and yield the audio in order."""
        async with self.stream(**request) as stream:
            sender = asyncio.create_task(_send_all(stream, text))
            try:
                async for event in stream:
                    if isinstance(event, Audio):
                        yield event
                await sender
            finally:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)


class Stream:
    """One `start` … `finish`. Send from one task, iterate in another (or after `stop`, in the same)."""

    def __init__(self, client: AsyncClient, request: dict[str, Any]) -> None:
        self._client, self._request = client, request
        self._socket: ClientConnection | None = None
        self._sent: list[bytes] = []
        """What would have to be said again on a new socket; dropped once sound has come."""
        self._flushes_owed = 0
        self._is_stopped = False
        self._has_audio = False
        self._has_recovered = False
        self._utterance = 0
        self._cancelled_through = 0
        self.is_finished = False

    async def open(self) -> None:
        await self._send(pack("start", request=self._request))

    async def send_text(self, text: str) -> None:
        """Appended verbatim: the spaces between words are the caller's."""
        await self._send(pack("text", text=text))

    async def flush(self) -> None:
        """Speak what was sent; `Flushed` follows its last audio."""
        self._flushes_owed += 1
        await self._send(pack("flush"))

    async def stop(self) -> None:
        """No more text; the iteration ends with `Finish`."""
        self._is_stopped = True
        await self._send(pack("stop"))

    async def cancel(self, played_ms: float | None = None) -> None:
        """Barge-in. From here on no audio of the utterance is yielded; `Cancelled` tells what was spoken. Text sent
        afterwards begins the next utterance."""
        self._cancelled_through = max(self._cancelled_through, self._utterance)
        self._flushes_owed, self._sent = 0, self._sent[:1]
        await self._send(pack("cancel", played_ms=played_ms), keep=False)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while not self.is_finished:
            event = parse(await self._receive())
            if isinstance(event, Audio):
                self._utterance = max(self._utterance, event.utterance)
                self._has_audio, self._sent = True, []
                if event.utterance <= self._cancelled_through:
                    continue
            elif isinstance(event, Cancelled):
                self._cancelled_through = max(self._cancelled_through, event.utterance)
            elif isinstance(event, Flushed):
                self._flushes_owed = max(0, self._flushes_owed - 1)
            elif isinstance(event, Finish):
                self.is_finished = True
            if event is not None:
                yield event

    async def _send(self, frame: bytes, *, keep: bool = True) -> None:
        if keep and not self._has_audio:
            self._sent.append(frame)
        if self._socket is None:
            self._socket = await self._client.connect()
            # A socket that the server has just closed shows it only now.
        try:
            await self._socket.send(frame)
        except ConnectionClosed as error:
            await self._recover(error)

    async def _receive(self) -> bytes | str:
        while True:
            assert self._socket is not None, "the stream is open"
            owed = self._is_stopped or self._flushes_owed > 0
            limit_s = self._client.audio_gap_timeout_s if self._has_audio else self._client.first_audio_timeout_s
            try:
                async with asyncio.timeout(limit_s if owed else None):
                    return await self._socket.recv()
            except TimeoutError:
                await self._client.close()
                raise DeadlineExceeded(f"no message for {limit_s:g} s while audio was owed") from None
            except ConnectionClosed as error:
                await self._recover(error)

    async def _recover(self, error: ConnectionClosed) -> None:
        """An idle socket that was closed is replaced once, and what was said on it is said again. Once sound has
        come that would repeat it: the stream is broken."""
        if self._has_audio or self._has_recovered or not self._sent:
            raise StreamBroken(f"the connection ended before finish: {error}") from None
        self._has_recovered = True
        self._socket = await self._client.connect()
        try:
            for frame in list(self._sent):
                await self._socket.send(frame)
        except ConnectionClosed as again:
            raise StreamBroken(f"the connection ended before finish: {again}") from None


async def _send_all(stream: Stream, text: str | AsyncIterator[str] | Sequence[str]) -> None:
    if isinstance(text, str):
        await stream.send_text(text)
    elif isinstance(text, AsyncIterator):
        async for piece in text:
            await stream.send_text(piece)
    else:
        for piece in text:
            await stream.send_text(piece)
    await stream.stop()


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
    retry = response.headers.get("Retry-After")
    return ConnectRefused(
        response.status_code,
        str(body.get("code", "refused")),
        str(body.get("message", response.reason_phrase)),
        float(retry) if retry and retry.isdigit() else None,
    )
