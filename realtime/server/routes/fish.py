"""Fish Audio's routes for speech: the live socket, bare and with timestamps, and speech over HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from realtime.audio.wav import wav_header
from realtime.errors import ConnectionFault, HandshakeRefused, Refusal, StreamFault
from realtime.protocol.fish.http import Asked, error_body, parse_body, timed_line
from realtime.protocol.fish.live import LiveDialect
from realtime.protocol.fish.replies import Limits
from realtime.protocol.fish.timestamps import StreamTimes
from realtime.protocol.replies import Audio, Reply
from realtime.server.body import read_body
from realtime.server.guest import Guest
from realtime.server.hub import Hub
from realtime.server.refusal import refusal_response, retry_headers, status_of
from realtime.server.spoken import MEDIA_TYPES, Spoken, bounded, sound_of

__all__ = ["live_dialect", "refused", "routes"]

WAV_HEADER_BYTES = 44


def routes(hub: Hub) -> list[BaseRoute]:
    async def speech(request: Request) -> Response:
        return await _speak(hub, request, _sound)

    async def timed(request: Request) -> Response:
        return await _speak(hub, request, _timed)

    return [
        WebSocketRoute("/v1/tts/live", _live(hub, with_timestamps=False)),
        WebSocketRoute("/v1/tts/live/with-timestamp", _live(hub, with_timestamps=True)),
        Route("/v1/tts", speech, methods=["POST"]),
        Route("/v1/tts/stream/with-timestamp", timed, methods=["POST"]),
    ]


def _live(hub: Hub, *, with_timestamps: bool) -> Callable[[WebSocket], Awaitable[None]]:
    async def live(socket: WebSocket) -> None:
        voice = socket.query_params.get("voice")
        try:
            guest = hub.admit(socket, voice)
        except HandshakeRefused as refusal:
            await socket.send_denial_response(refusal_response(refusal))
            return
        dialect = live_dialect(guest, voice, with_timestamps=with_timestamps)
        await hub.serve(socket, dialect.request_id, dialect)

    return live


def live_dialect(guest: Guest, voice: str | None, *, with_timestamps: bool = False) -> LiveDialect:
    """A new socket's, speaking with this voice (None: the default)."""
    hub = guest.hub
    config, engine = hub.config, hub.runtime.engine.limits
    return LiveDialect(
        guest.new_context(voice),
        limits=Limits(config.max_message_bytes, config.max_stream_chars, config.idle_s),
        request_id=hub.new_request_id(),
        sample_rate_hz=engine.sample_rate_hz,
        frame_ms=round(engine.frame_s * 1000, 3),
        now=time.monotonic(),
        with_timestamps=with_timestamps,
    )


def refused(refusal: Refusal) -> Response:
    status = status_of(refusal)
    return JSONResponse(error_body(refusal, status), status, retry_headers(refusal))


async def _speak(hub: Hub, request: Request, answer: Callable[[Guest, Asked, dict[str, str]], Response]) -> Response:
    try:
        guest = hub.admit(request)
        body = await read_body(request, hub.config.max_message_bytes)
        asked = parse_body(body, request.headers.get("content-type", ""))
    except (HandshakeRefused, StreamFault, ConnectionFault) as refusal:
        return refused(refusal)
    return answer(guest, asked, {"X-Request-Id": hub.new_request_id()})


def _sound(guest: Guest, asked: Asked, headers: dict[str, str]) -> Response:
    output = asked.request.output
    rate_hz = output.sample_rate_hz or guest.hub.runtime.engine.limits.sample_rate_hz
    if output.format in ("pcm", "wav"):
        headers["X-Sample-Rate"] = str(rate_hz)
    is_whole_wav = asked.is_whole and output.format == "wav"
    pieces = partial(_whole_wav, rate_hz) if is_whole_wav else sound_of
    return Spoken(guest, asked.request, refused, media_type=MEDIA_TYPES[output.format], headers=headers, pieces=pieces)


def _timed(guest: Guest, asked: Asked, headers: dict[str, str]) -> Response:
    return Spoken(guest, asked.request, refused, media_type="text/event-stream", headers=headers, pieces=_timed_lines)


async def _whole_wav(rate_hz: int, replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
    """All at once, with the true sizes in the header."""
    sound = b"".join([piece async for piece in sound_of(bounded(replies))])[WAV_HEADER_BYTES:]
    yield wav_header(rate_hz, len(sound)) + sound


async def _timed_lines(replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
    times = StreamTimes()
    async for reply in replies:
        if isinstance(reply, Audio):
            yield timed_line(reply, times)
