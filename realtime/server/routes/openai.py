"""OpenAI's routes: speech over HTTP, the Realtime socket for speech out, and the models."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from realtime.errors import ConnectionFault, HandshakeRefused, Refusal, StreamFault
from realtime.protocol.contexts import SocketLimits
from realtime.protocol.openai.realtime import RealtimeSocket
from realtime.protocol.openai.session import Session
from realtime.protocol.openai.speech import (
    MODELS,
    SpeechBody,
    done_event,
    error_body,
    event_line,
    model_entry,
    sound_event,
    speech_request,
    voice_for,
)
from realtime.protocol.replies import Audio, Finish, Reply
from realtime.server.body import read_json
from realtime.server.hub import Hub
from realtime.server.refusal import retry_headers, status_of
from realtime.server.spoken import MEDIA_TYPES, Spoken, sound_of

__all__ = ["routes"]


def routes(hub: Hub) -> list[BaseRoute]:
    async def speech(request: Request) -> Response:
        try:
            guest = hub.admit(request)
            body = await read_json(request, SpeechBody, hub.config.max_message_bytes)
            voice = voice_for(body.voice, guest.voices, list(hub.runtime.engine.voices))
            asked, is_events = speech_request(body, voice)
        except (HandshakeRefused, StreamFault, ConnectionFault) as refusal:
            return _refused(refusal)
        headers = {"x-request-id": hub.new_request_id()}
        if asked.output.sample_rate_hz is not None:
            headers["X-Sample-Rate"] = str(asked.output.sample_rate_hz)
        if is_events:
            return Spoken(guest, asked, _refused, media_type="text/event-stream", headers=headers, pieces=_events)
        media_type = MEDIA_TYPES[asked.output.format]
        return Spoken(guest, asked, _refused, media_type=media_type, headers=headers, pieces=sound_of)

    async def models(request: Request) -> Response:
        return _answer(hub, request, {"object": "list", "data": [model_entry(name) for name in MODELS]})

    async def model(request: Request) -> Response:
        """Any name means the one model there is."""
        return _answer(hub, request, model_entry(request.path_params["model"]))

    async def root(_: Request) -> Response:
        """Clients ask for it to warm the connection."""
        return JSONResponse({"object": "api", "models": "/v1/models", "speech": "/v1/audio/speech"})

    async def realtime(socket: WebSocket) -> None:
        try:
            guest = hub.admit(socket)
        except HandshakeRefused as refusal:
            await socket.send_denial_response(_refused(refusal))
            return
        request_id, voice = hub.new_request_id(), hub.default_voice
        dialect = RealtimeSocket(
            guest.new_context,
            Session(voice, voice),
            lambda name: voice_for(name, guest.voices, list(hub.runtime.engine.voices)),
            SocketLimits(hub.config.max_message_bytes, hub.config.idle_s),
            session_id=request_id,
            model=socket.query_params.get("model", MODELS[0]),
            now=time.monotonic(),
        )
        await hub.serve(socket, request_id, dialect)

    return [
        WebSocketRoute("/v1/realtime", realtime),
        Route("/v1/audio/speech", speech, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{model}", model),
        Route("/v1/", root),
        Route("/v1", root),
    ]


def _refused(refusal: Refusal) -> Response:
    status = status_of(refusal)
    return JSONResponse(error_body(refusal, status), status, retry_headers(refusal))


def _answer(hub: Hub, request: Request, body: dict[str, object]) -> Response:
    try:
        hub.admit(request)
    except HandshakeRefused as refusal:
        return _refused(refusal)
    return JSONResponse(body)


async def _events(replies: AsyncIterator[Reply]) -> AsyncGenerator[bytes, None]:
    """A failure half way is told as an event, and still cuts the body."""
    has_sound = False
    try:
        async for reply in replies:
            if isinstance(reply, Audio) and reply.has_sound:
                has_sound = True
                yield event_line(sound_event(reply))
            elif isinstance(reply, Finish):
                yield event_line(done_event(reply))
    except StreamFault as fault:
        if has_sound:
            yield event_line({"type": "error"} | error_body(fault, status_of(fault)))
        raise
