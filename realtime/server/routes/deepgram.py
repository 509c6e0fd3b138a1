"""Deepgram's `/v1/speak` and `/v2/speak`, as sockets and as requests."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from realtime.errors import ConnectionFault, HandshakeRefused, Refusal, StreamFault
from realtime.protocol.contexts import SocketLimits
from realtime.protocol.deepgram.flux import FluxSocket
from realtime.protocol.deepgram.messages import SpeechBody
from realtime.protocol.deepgram.replies import error_body
from realtime.protocol.deepgram.request import DEFAULT_MODEL, socket_request, speech_request
from realtime.protocol.deepgram.socket import DeepgramSocket
from realtime.server.body import read_body, read_json
from realtime.server.hub import Hub
from realtime.server.refusal import retry_headers, status_of
from realtime.server.spoken import MEDIA_TYPES, Spoken

__all__ = ["routes"]


def routes(hub: Hub) -> list[BaseRoute]:
    async def speech(request: Request) -> Response:
        request_id, query = hub.new_request_id(), request.query_params

        def refused(refusal: Refusal) -> Response:
            return _refused(refusal, request_id)

        try:
            guest = hub.admit(request)
            asked = speech_request(await _body(request, hub.config.max_message_bytes), query)
        except (HandshakeRefused, StreamFault, ConnectionFault) as refusal:
            return refused(refusal)
        headers = {
            "dg-request-id": request_id,
            "dg-model-name": query.get("model", DEFAULT_MODEL)[:80].encode("ascii", "replace").decode(),
            "dg-char-count": str(len(asked.text)),
        }
        return Spoken(guest, asked, refused, media_type=MEDIA_TYPES[asked.output.format], headers=headers)

    return [
        WebSocketRoute("/v1/speak", _socket(hub, DeepgramSocket)),
        WebSocketRoute("/v2/speak", _socket(hub, FluxSocket)),
        Route("/v1/speak", speech, methods=["POST"]),
        Route("/v2/speak", speech, methods=["POST"]),
    ]


def _socket(hub: Hub, dialect: type[DeepgramSocket | FluxSocket]) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(socket: WebSocket) -> None:
        request_id, query = hub.new_request_id(), socket.query_params
        try:
            guest = hub.admit(socket)
            asked = socket_request(query)
        except (HandshakeRefused, StreamFault) as refusal:
            await socket.send_denial_response(_refused(refusal, request_id))
            return
        model = query.get("model", DEFAULT_MODEL)
        limits = SocketLimits(hub.config.max_message_bytes, hub.config.idle_s)
        about = {"request_id": request_id, "model": model}
        talk = dialect(partial(guest.new_context, model), asked, limits, now=time.monotonic(), **about)
        await hub.serve(socket, request_id, talk)

    return serve


async def _body(request: Request, max_bytes: int) -> SpeechBody:
    """JSON, or the bare text. Raises StreamFault and TooBig."""
    if request.headers.get("content-type", "").startswith("text/plain"):
        return SpeechBody((await read_body(request, max_bytes)).decode("utf-8", "replace"))
    return await read_json(request, SpeechBody, max_bytes)


def _refused(refusal: Refusal, request_id: str) -> Response:
    body = error_body(refusal.code, str(refusal), request_id)
    return JSONResponse(body, status_of(refusal), retry_headers(refusal) | {"dg-request-id": request_id})
