"""The whole application: the protocols' routes, and what operators and browsers ask for."""

from __future__ import annotations

import time
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from realtime.errors import HandshakeRefused
from realtime.server.auth import check_key, secret_of
from realtime.server.guards import BoundedBodies, OneLength
from realtime.server.hub import Hub
from realtime.server.refusal import refusal_response
from realtime.server.routes import cartesia, deepgram, elevenlabs, fish, fish_voices, hooks, openai
from realtime.server.tokens import TOKEN_S, make_token

__all__ = ["make_app"]

PAGE_FOLDER = Path(__file__).parents[2] / "clients" / "js"
PAGE_PARTS = ("demo", "src", "vendor")
"""What of that folder a browser may read; its tests and development packages are nobody's business."""

FULL_BODIES = 16
"""So many of the largest may be in memory at once."""

_SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; worker-src 'self' blob:; "
        "connect-src 'self' ws: wss:; media-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    # Modules of two versions must not meet in a browser after an upgrade; unchanged ones cost a 304.
    "Cache-Control": "no-cache",
}


class _SecurityHeaders:
    """Adds them to whatever answers. Bare ASGI: starlette's BaseHTTPMiddleware ends a body properly whose maker failed,
    so that a cut answer would look whole."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class _CountsKeys:
    """However a socket or request ends, its key is told."""

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app, self._hub = app, hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            self._hub.gone(scope)


def make_app(hub: Hub) -> Starlette:
    async def healthz(request: Request) -> Response:
        """The process lives and its engine has not failed."""
        return JSONResponse({"status": "failed" if hub.is_failed else "ok"}, 503 if hub.is_failed else 200)

    async def readyz(request: Request) -> Response:
        """Sessions are taken: model loaded, engine threads moving, not draining."""
        return JSONResponse({"ready": hub.is_ready}, 200 if hub.is_ready else 503)

    async def metrics(request: Request) -> Response:
        return Response(hub.metrics.exposition(), media_type="text/plain; version=0.0.4")

    async def voices(request: Request) -> Response:
        try:
            key = check_key(request, hub.config.api_keys)
        except HandshakeRefused as refusal:
            return refusal_response(refusal)
        if not hub.is_ready:
            return JSONResponse({"status": 503, "code": "not_ready", "message": "still loading"}, 503)
        listed = [{"name": v.name, "description": v.description} for v in hub.guest(key).voices.values()]
        rate_hz = hub.runtime.engine.limits.sample_rate_hz
        return JSONResponse({"voices": listed, "default": hub.default_voice, "sample_rate": rate_hz})

    async def token(request: Request) -> Response:
        """A token for a page, made from the key of its backend. A token makes no token."""
        try:
            key = check_key(request, hub.config.api_keys, takes_tokens=False)
        except HandshakeRefused as refusal:
            return refusal_response(refusal)
        made = None if key is None else make_token(secret_of(key), time.time())
        return JSONResponse({"token": made, "expires_in_s": TOKEN_S}, headers={"Cache-Control": "no-store"})

    async def module(request: Request) -> Response:
        return FileResponse(PAGE_FOLDER / "kingfisher.js", media_type="text/javascript")

    async def page(request: Request) -> Response:
        demo = PAGE_FOLDER / "demo.html"
        if not demo.is_file():
            return JSONResponse({"status": 404, "code": "no_page", "message": "the demo page is not installed"}, 404)
        return FileResponse(demo)

    app = Starlette(
        routes=[
            *fish.routes(hub),
            *fish_voices.routes(hub),
            *elevenlabs.routes(hub),
            *cartesia.routes(hub),
            *deepgram.routes(hub),
            *hooks.routes(hub),
            *openai.routes(hub),
            Route("/v1/voices", voices),
            Route("/v1/tokens", token, methods=["POST"]),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            Route("/", page),
            Route("/client/kingfisher.js", module),
            *(
                Mount(f"/client/{part}", StaticFiles(directory=PAGE_FOLDER / part))
                for part in PAGE_PARTS
                if (PAGE_FOLDER / part).is_dir()
            ),
        ],
        middleware=[
            Middleware(_CountsKeys, hub=hub),
            Middleware(_SecurityHeaders),
            Middleware(OneLength),
            Middleware(BoundedBodies, max_bytes=FULL_BODIES * hub.config.max_message_bytes),
        ],
        exception_handlers={HTTPException: _no_such_route},
    )
    app.router.default = _nowhere
    return app


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    """Sockets too: starlette's own answer to them is 403, which clients take for a matter of keys."""
    raise HTTPException(404)


async def _no_such_route(request: HTTPConnection, error: Exception) -> Response:
    """An object, as clients of every protocol look into what says no."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:80]
    code, message = {
        404: ("not_found", f"there is nothing at {path}"),
        405: ("method_not_allowed", f"{path} takes no such request; see Allow"),
    }.get(error.status_code, ("bad_request", error.detail))
    body = {"status": error.status_code, "code": code, "message": message}
    return JSONResponse(body, error.status_code, error.headers)
