"""Fish Audio's routes: the live socket."""

from __future__ import annotations

import time

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from realtime.errors import HandshakeRefused
from realtime.protocol.fish.live import LiveDialect
from realtime.protocol.fish.replies import Limits
from realtime.server.hub import Hub
from realtime.server.refusal import refusal_response

__all__ = ["live_dialect", "routes"]


def routes(hub: Hub) -> list[BaseRoute]:
    async def live(socket: WebSocket) -> None:
        voice = socket.query_params.get("voice")
        try:
            hub.admit(socket, voice)
        except HandshakeRefused as refusal:
            await socket.send_denial_response(refusal_response(refusal))
            return
        dialect = live_dialect(hub, voice)
        await hub.serve(socket, dialect.request_id, dialect)

    return [WebSocketRoute("/v1/tts/live", live)]


def live_dialect(hub: Hub, voice: str | None) -> LiveDialect:
    """A new socket's, speaking with this voice (None: the default)."""
    config, engine = hub.config, hub.runtime.engine.limits
    return LiveDialect(
        hub.new_context(voice),
        limits=Limits(config.max_message_bytes, config.max_stream_chars, config.idle_s),
        request_id=hub.new_request_id(),
        sample_rate_hz=engine.sample_rate_hz,
        frame_ms=round(engine.frame_s * 1000, 3),
        now=time.monotonic(),
    )
