"""ElevenLabs' routes: two sockets, speech over HTTP, and the lists that clients ask for.

`/v1/models` and `/v1/voices` mean different things to other protocols: these answer requests with an `xi-api-key`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import Scope
from starlette.websockets import WebSocket

from realtime.errors import ConnectionFault, HandshakeRefused, Refusal, StreamFault
from realtime.protocol.contexts import SocketLimits
from realtime.protocol.elevenlabs.bodies import error_body, model_entry, timed_sound, user_body, voice_entry
from realtime.protocol.elevenlabs.messages import SpeechBody
from realtime.protocol.elevenlabs.multi import MultiStream
from realtime.protocol.elevenlabs.request import socket_settings, speech_request
from realtime.protocol.elevenlabs.single import SingleStream
from realtime.protocol.replies import Audio, Reply, WordTiming
from realtime.server.body import read_json
from realtime.server.guest import Guest
from realtime.server.hub import Hub
from realtime.server.refusal import retry_headers, status_of
from realtime.server.spoken import MEDIA_TYPES, Pieces, Spoken, bounded, sound_of

__all__ = ["routes"]

LANGUAGES = ("en",)
KEY_HEADER = b"xi-api-key"


class _KeyedRoute(Route):
    """Matches only what comes with the vendor's own header."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not any(name == KEY_HEADER for name, _ in scope["headers"]):
            return Match.NONE, {}
        return super().matches(scope)


def routes(hub: Hub) -> list[BaseRoute]:
    speech, lists = _Speech(hub), _Lists(hub)
    base = "/v1/text-to-speech/{voice}"
    return [
        WebSocketRoute(f"{base}/stream-input", _socket(hub, SingleStream)),
        WebSocketRoute(f"{base}/multi-stream-input", _socket(hub, MultiStream)),
        Route(base, speech.sound, methods=["POST"]),
        Route(f"{base}/stream", speech.sound, methods=["POST"]),
        Route(f"{base}/with-timestamps", speech.timed, methods=["POST"]),
        Route(f"{base}/stream/with-timestamps", speech.timed_lines, methods=["POST"]),
        _KeyedRoute("/v1/voices", lists.voices),
        Route("/v2/voices", lists.paged_voices),
        Route("/v1/voices/{voice}", lists.voice),
        _KeyedRoute("/v1/models", lists.models),
        Route("/v1/user", lists.user),
        Route("/v1/user/subscription", lists.subscription),
    ]


def _refused(refusal: Refusal) -> Response:
    return JSONResponse(error_body(refusal.code, str(refusal)), status_of(refusal), retry_headers(refusal))


def _socket(hub: Hub, dialect: type[SingleStream | MultiStream]) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(socket: WebSocket) -> None:
        voice = socket.path_params["voice"]
        try:
            guest = hub.admit(socket)
            settings = socket_settings(voice, socket.query_params)
        except (HandshakeRefused, StreamFault) as refusal:
            await socket.send_denial_response(_refused(refusal))
            return
        config = hub.config
        limits = SocketLimits(config.max_message_bytes, config.idle_s)
        await hub.serve(
            socket,
            hub.new_request_id(),
            dialect(partial(guest.new_context, voice), settings, limits, time.monotonic()),
        )

    return serve


class _Speech:
    """Text in whole, sound out: bare, with times in one body, or with times line by line."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def sound(self, request: Request) -> Response:
        return await self._speak(request, sound_of, None)

    async def timed(self, request: Request) -> Response:
        return await self._speak(request, _timed_whole, "application/json")

    async def timed_lines(self, request: Request) -> Response:
        return await self._speak(request, _timed_lines, "application/json")

    async def _speak(self, request: Request, pieces: Pieces, media_type: str | None) -> Response:
        hub = self._hub
        try:
            guest = hub.admit(request)
            body = await read_json(request, SpeechBody, hub.config.max_message_bytes)
            asked = speech_request(request.path_params["voice"], body, request.query_params)
        except (HandshakeRefused, StreamFault, ConnectionFault) as refusal:
            return _refused(refusal)
        headers = {"request-id": hub.new_request_id(), "character-cost": "0"}
        media_type = media_type or MEDIA_TYPES[asked.output.format]
        return Spoken(guest, asked, _refused, media_type=media_type, headers=headers, pieces=pieces)


async def _timed_lines(replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
    async for reply in replies:
        if isinstance(reply, Audio):
            yield msgspec.json.encode(timed_sound(reply.chunk.data, reply.timings)) + b"\n"


async def _timed_whole(replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
    data, words = bytearray(), list[WordTiming]()
    async for reply in bounded(replies):
        if isinstance(reply, Audio):
            data += reply.chunk.data
            words += reply.timings
    yield msgspec.json.encode(timed_sound(bytes(data), words))


class _Lists:
    """What clients look up before they speak."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def voices(self, request: Request) -> Response:
        return self._answer(request, lambda guest: {"voices": _entries(guest)})

    async def paged_voices(self, request: Request) -> Response:
        def page(guest: Guest) -> dict[str, object]:
            entries = _entries(guest)
            return {"voices": entries, "has_more": False, "total_count": len(entries), "next_page_token": None}

        return self._answer(request, page)

    async def voice(self, request: Request) -> Response:
        name = request.path_params["voice"]
        return self._answer(request, lambda guest: _entry(guest, name), name)

    async def models(self, request: Request) -> Response:
        return self._answer(request, lambda _: [model_entry(LANGUAGES, self._hub.config.max_stream_chars)])

    async def user(self, request: Request) -> Response:
        return self._answer(request, lambda _: user_body(self._hub.config.max_stream_chars))

    async def subscription(self, request: Request) -> Response:
        return self._answer(request, lambda _: user_body(self._hub.config.max_stream_chars)["subscription"])

    def _answer(self, request: Request, body: Callable[[Guest], object], voice: str | None = None) -> Response:
        try:
            guest = self._hub.admit(request, voice)
        except HandshakeRefused as refusal:
            return _refused(refusal)
        return JSONResponse(body(guest))


def _entries(guest: Guest) -> list[dict[str, object]]:
    return [_entry(guest, name) for name in guest.voices]


def _entry(guest: Guest, name: str) -> dict[str, object]:
    return voice_entry(name, guest.voices[name].description)
