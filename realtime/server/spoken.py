"""The answer to a request that asks for speech: the status line goes out with the first sound, so what fails before
that is a real error; what fails later cuts the body, so that it never looks complete."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from realtime.errors import Refusal, StreamFault, TooManySessions
from realtime.protocol.events import AudioFormat
from realtime.protocol.replies import Audio, Reply
from realtime.protocol.request import StreamRequest
from realtime.server.hub import Hub
from realtime.server.speak import speak

__all__ = ["MEDIA_TYPES", "Spoken", "sound_of"]

log = logging.getLogger(__name__)

WHOLE_LEAD_S = 600.0
"""Whoever asks by HTTP wants the whole sound soon, not in step with playback."""

MEDIA_TYPES: dict[AudioFormat, str] = {
    "pcm": "audio/pcm",
    "wav": "audio/wav",
    "opus": "audio/ogg",
    "f32": "audio/pcm",
    "mulaw": "audio/basic",
    "alaw": "audio/x-alaw-basic",
    "mp3": "audio/mpeg",
    "aac": "audio/aac",
    "flac": "audio/flac",
}

Pieces = Callable[[AsyncIterator[Reply]], AsyncGenerator[bytes, None]]


async def sound_of(replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
    async for reply in replies:
        if isinstance(reply, Audio) and reply.chunk.data:
            yield reply.chunk.data


class Spoken(Response):
    """Speaks while it is being sent; the speech ends when the client is gone."""

    def __init__(
        self,
        hub: Hub,
        asked: StreamRequest,
        refused: Callable[[Refusal], Response],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        pieces: Pieces = sound_of,
    ) -> None:
        """`refused` is the protocol's answer to what fails before the first sound; `pieces` make the body."""
        self._hub, self._asked, self._refused, self._pieces = hub, asked, refused, pieces
        self._extra, self._type = headers, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False
        try:
            asked = replace(self._asked, max_lead_s=WHOLE_LEAD_S)
            async with speak(self._hub, asked) as replies, aclosing(self._pieces(replies)) as body:
                first = await anext(body, b"")
                has_begun = True
                await StreamingResponse(_with(first, body), 200, self._extra, self._type)(scope, receive, send)
        except (StreamFault, TooManySessions) as refusal:
            if has_begun:
                log.info("a body was cut: %s", refusal)
                return  # an answer that was not completed makes the server close the connection
            await self._refused(refusal)(scope, receive, send)


async def _with(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
