"""The answer to a request that asks for speech: the status line goes out with the first sound, so what fails before
that is a real error; what fails later cuts the body, so that it never looks complete."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from realtime.errors import Refusal, StreamFault, TooManySessions, TooMuchText
from realtime.protocol.events import AudioFormat
from realtime.protocol.replies import Audio, Reply
from realtime.protocol.request import StreamRequest
from realtime.server.guest import Guest
from realtime.server.handshake import abort
from realtime.server.speak import speak

__all__ = ["MEDIA_TYPES", "Spoken", "bounded", "sound_of"]

log = logging.getLogger(__name__)

MEDIA_TYPES: dict[AudioFormat, str] = {
    "pcm": "audio/pcm",
    "wav": "audio/wav",
    "wav_f32": "audio/wav",
    "wav_mulaw": "audio/wav",
    "wav_alaw": "audio/wav",
    "opus": "audio/ogg",
    "f32": "audio/pcm",
    "mulaw": "audio/basic",
    "alaw": "audio/x-alaw-basic",
    "mp3": "audio/mpeg",
    "aac": "audio/aac",
    "flac": "audio/flac",
}

MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""Of the sound in an answer that is sent in one piece, and kept in memory until then: 23 minutes at 24 kHz."""

Pieces = Callable[[AsyncIterator[Reply]], AsyncGenerator[bytes, None]]


async def sound_of(replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
    async for reply in replies:
        if isinstance(reply, Audio) and reply.chunk.data:
            yield reply.chunk.data


async def bounded(replies: AsyncIterator[Reply]) -> AsyncIterator[Reply]:
    """The same, for an answer in one piece. Raises TooMuchText where their sound is too long for that."""
    size = 0
    async for reply in replies:
        if isinstance(reply, Audio):
            size += len(reply.chunk.data)
        if size > MAX_WHOLE_BYTES:
            raise TooMuchText(f"the sound has over {MAX_WHOLE_BYTES} bytes: ask for it as a stream, or for less text")
        yield reply


class Spoken(Response):
    """Speaks while it is being sent; the speech ends when the client is gone."""

    def __init__(
        self,
        guest: Guest,
        asked: StreamRequest,
        refused: Callable[[Refusal], Response],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        pieces: Pieces = sound_of,
    ) -> None:
        """`refused` is the protocol's answer to what fails before the first sound; `pieces` make the body."""
        self._guest, self._asked, self._refused, self._pieces = guest, asked, refused, pieces
        self._extra, self._type = headers, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False
        listener = _Listener(self._guest.hub.config.stall_s)
        try:
            async with (
                speak(self._guest, self._asked) as replies,
                aclosing(self._pieces(listener.noting(replies))) as body,
            ):
                first = await _unless_gone(anext(body, b""), receive)
                has_begun = True
                answer = StreamingResponse(_with(first, body), 200, self._extra, self._type)
                await answer(scope, receive, listener.watched(send))
        except TimeoutError:
            self._guest.hub.metrics.dropped.inc()
            log.info("a body was cut: its client does not read")
            abort(scope)
        except ClientDisconnect:
            log.debug("a client was gone before its first sound")
        except (StreamFault, TooManySessions) as refusal:
            if has_begun:
                log.info("a body was cut: %s", refusal)
                return  # an answer that was not completed makes the server close the connection
            await self._refused(refusal)(scope, receive, send)


class _Listener:
    """How long a client may take nothing. One that plays what it is sent has no need of more while it has some left:
    kernel buffers alone hold minutes, and are refilled in one go."""

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._play_end_s = 0.0

    async def noting(self, replies: AsyncIterator[Reply]) -> AsyncIterator[Reply]:
        async for reply in replies:
            if isinstance(reply, Audio):
                self._play_end_s = max(self._play_end_s, time.monotonic()) + reply.chunk.duration_ms / 1000
            yield reply

    def watched(self, send: Send) -> Send:
        """`send`, which raises TimeoutError where a client takes nothing for `stall_s` more than the sound lasts that
        it was sent."""

        async def watched(message: Message) -> None:
            async with asyncio.timeout(self._patience_s()):
                await send(message)

        return watched

    def _patience_s(self) -> float:
        return self._stall_s + max(0.0, self._play_end_s - time.monotonic())


async def _with(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _unless_gone(first: Coroutine[Any, Any, bytes], receive: Receive) -> bytes:
    """Speech may wait long for a slot: whoever hung up meanwhile does not keep it. Raises ClientDisconnect."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    sound, hung_up = asyncio.ensure_future(first), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({sound, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        if sound.done():
            return sound.result()
        raise ClientDisconnect
    finally:
        for task in (sound, hung_up):
            task.cancel()
        await asyncio.gather(sound, hung_up, return_exceptions=True)
