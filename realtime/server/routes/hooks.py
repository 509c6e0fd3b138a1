"""Bring-your-own-voice hooks: addresses to enter at Vapi, jambonz and Tencent TRTC."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from realtime.errors import ConnectionFault, HandshakeRefused, Refusal, StreamFault
from realtime.protocol.contexts import SocketLimits
from realtime.protocol.hooks.jambonz import JambonzSocket, socket_request
from realtime.protocol.hooks.requests import (
    JambonzBody,
    TrtcBody,
    VapiBody,
    jambonz_request,
    trtc_request,
    vapi_request,
)
from realtime.protocol.request import StreamRequest
from realtime.server.body import read_json
from realtime.server.hub import Hub
from realtime.server.refusal import retry_headers, status_of
from realtime.server.spoken import MEDIA_TYPES, Spoken

__all__ = ["routes"]

_Body = TypeVar("_Body")


def routes(hub: Hub) -> list[BaseRoute]:
    return [
        WebSocketRoute("/hooks/jambonz", _jambonz_socket(hub)),
        Route("/hooks/jambonz", _hook(hub, JambonzBody, lambda body, _: jambonz_request(body)), methods=["POST"]),
        Route("/hooks/vapi", _hook(hub, VapiBody, vapi_request), methods=["POST"]),
        Route("/hooks/trtc", _hook(hub, TrtcBody, lambda body, _: trtc_request(body), "audio/L16"), methods=["POST"]),
    ]


def _refused(refusal: Refusal) -> Response:
    body = {"error": {"code": refusal.code, "message": str(refusal)}}
    return JSONResponse(body, status_of(refusal), retry_headers(refusal))


def _hook(
    hub: Hub,
    kind: type[_Body],
    asked_by: Callable[[_Body, str | None], StreamRequest],
    pcm_type: str = MEDIA_TYPES["pcm"],
) -> Callable[[Request], Awaitable[Response]]:
    """The route of a platform that posts one sentence; `?voice=` in its address names the voice."""

    async def speak(request: Request) -> Response:
        try:
            guest = hub.admit(request)
            body = await read_json(request, kind, hub.config.max_message_bytes)
            asked = asked_by(body, request.query_params.get("voice"))
        except (HandshakeRefused, StreamFault, ConnectionFault) as refusal:
            return _refused(refusal)
        media_type = pcm_type if asked.output.format == "pcm" else MEDIA_TYPES[asked.output.format]
        return Spoken(guest, asked, _refused, media_type=media_type)

    return speak


def _jambonz_socket(hub: Hub) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(socket: WebSocket) -> None:
        try:
            guest = hub.admit(socket)
            asked = socket_request(socket.query_params)
        except (HandshakeRefused, StreamFault) as refusal:
            await socket.send_denial_response(_refused(refusal))
            return
        limits = SocketLimits(hub.config.max_message_bytes, hub.config.idle_s)
        dialect = JambonzSocket(partial(guest.new_context, asked.reference_id), asked, limits, time.monotonic())
        await hub.serve(socket, hub.new_request_id(), dialect)

    return serve
