"""Cartesia's routes: the socket, speech as bytes or as server-sent events, and the voices."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from realtime.errors import ConnectionFault, HandshakeRefused, Refusal, StreamFault
from realtime.protocol.cartesia.messages import SpeechBody
from realtime.protocol.cartesia.replies import (
    chunk_message,
    done_message,
    error_message,
    timestamps_message,
    voice_entry,
)
from realtime.protocol.cartesia.request import body_output, raw_output, speech_request
from realtime.protocol.cartesia.socket import CartesiaSocket
from realtime.protocol.contexts import SocketLimits
from realtime.protocol.replies import Audio, Finish, Reply
from realtime.server.body import read_json
from realtime.server.guest import Guest
from realtime.server.hub import Hub
from realtime.server.refusal import retry_headers, status_of
from realtime.server.spoken import MEDIA_TYPES, Pieces, Spoken, sound_of

__all__ = ["routes"]


def routes(hub: Hub) -> list[BaseRoute]:
    speech, voices = _Speech(hub), _Voices(hub)
    return [
        WebSocketRoute("/tts/websocket", _socket(hub)),
        Route("/tts/bytes", speech.bytes, methods=["POST"]),
        Route("/tts/sse", speech.events, methods=["POST"]),
        Route("/voices", voices.all),
        Route("/voices/{voice}", voices.one),
    ]


def _refused(refusal: Refusal, request_id: str) -> Response:
    body = error_message(refusal.code, str(refusal), request_id)
    return JSONResponse(body, status_of(refusal), retry_headers(refusal))


def _socket(hub: Hub) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(socket: WebSocket) -> None:
        request_id = hub.new_request_id()
        try:
            guest = hub.admit(socket)
        except HandshakeRefused as refusal:
            await socket.send_denial_response(_refused(refusal, request_id))
            return
        limits = SocketLimits(hub.config.max_message_bytes, hub.config.idle_s)
        await hub.serve(socket, request_id, CartesiaSocket(guest.new_context, limits, request_id, time.monotonic()))

    return serve


class _Speech:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def bytes(self, request: Request) -> Response:
        return await self._speak(request, is_sse=False)

    async def events(self, request: Request) -> Response:
        return await self._speak(request, is_sse=True)

    async def _speak(self, request: Request, *, is_sse: bool) -> Response:
        hub, request_id = self._hub, self._hub.new_request_id()

        def refused(refusal: Refusal) -> Response:
            return _refused(refusal, request_id)

        try:
            guest = hub.admit(request)
            body = await read_json(request, SpeechBody, hub.config.max_message_bytes)
            asked = speech_request(body, (raw_output if is_sse else body_output)(body.output_format))
        except (HandshakeRefused, StreamFault, ConnectionFault) as refusal:
            return refused(refusal)
        media_type = "text/event-stream" if is_sse else MEDIA_TYPES[asked.output.format]
        pieces = _events(request_id, has_timestamps=bool(body.add_timestamps)) if is_sse else sound_of
        headers = {"Cartesia-Request-ID": request_id}
        return Spoken(guest, asked, refused, media_type=media_type, headers=headers, pieces=pieces)


def _events(context_id: str, *, has_timestamps: bool) -> Pieces:
    """Server-sent events; a failure behind the first of them is one more."""

    async def pieces(replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
        has_begun = False
        try:
            async for reply in replies:
                match reply:
                    case Audio():
                        if reply.has_sound:
                            yield _event(chunk_message(reply), context_id)
                            has_begun = True
                        if has_timestamps and reply.timings:
                            yield _event(timestamps_message(reply.timings), context_id)
                    case Finish():
                        yield _event(done_message(), context_id)
        except StreamFault as fault:
            if not has_begun:
                raise
            yield _event(error_message(fault.code, str(fault), context_id), context_id)

    return pieces


def _event(message: dict[str, Any], context_id: str) -> bytes:
    data = msgspec.json.encode(message | {"context_id": context_id})
    return b"event: %s\ndata: %s\n\n" % (message["type"].encode(), data)


class _Voices:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def all(self, request: Request) -> Response:
        return self._answer(request, lambda guest: _page(guest, request.query_params))

    async def one(self, request: Request) -> Response:
        name = request.path_params["voice"]
        return self._answer(request, lambda guest: _entry(guest, name), name)

    def _answer(self, request: Request, body: Callable[[Guest], object], voice: str | None = None) -> Response:
        try:
            guest = self._hub.admit(request, voice)
        except HandshakeRefused as refusal:
            return _refused(refusal, self._hub.new_request_id())
        return JSONResponse(body(guest))


def _page(guest: Guest, query: Mapping[str, str]) -> dict[str, object]:
    """Clients ask for page after page until one is empty, whatever `has_more` says."""
    names = list(guest.voices)
    if (name := query.get("starting_after")) is not None:
        names = names[names.index(name) + 1 :] if name in names else []
    if (name := query.get("ending_before")) is not None:
        names = names[: names.index(name)] if name in names else []
    return {"data": [_entry(guest, name) for name in names], "has_more": False, "next_page": None}


def _entry(guest: Guest, name: str) -> dict[str, object]:
    return voice_entry(name, guest.voices[name].description)
