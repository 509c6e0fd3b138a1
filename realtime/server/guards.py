"""What no request may do, whatever its route: bare ASGI, around the whole application."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from realtime.errors import Overloaded

__all__ = ["BoundedBodies", "OneLength"]


class OneLength:
    """A body has one length. A request that states two (Content-Length and Transfer-Encoding) is read differently by
    some proxies, which lets a client smuggle a second request past them; RFC 9112, 6.1, allows to refuse it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope["headers"]}
        if scope["type"] != "http" or not {b"content-length", b"transfer-encoding"} <= names:
            await self._app(scope, receive, send)
            return
        message = "the request states its length twice: Content-Length and Transfer-Encoding"
        body = {"status": 400, "code": "bad_request", "message": message}
        await JSONResponse(body, 400, {"Connection": "close"})(scope, receive, send)


class BoundedBodies:
    """All bodies that are being read together, so that many clients cannot fill the memory, each within its limit."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held = 0

        def let_go() -> None:
            nonlocal held
            self._held_bytes -= held
            held = 0

        async def receive_counted() -> Message:
            """Raises Overloaded, into whatever reads the body."""
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            if self._held_bytes + size > self._max_bytes:
                raise Overloaded("too many large requests are being read")
            held += size
            self._held_bytes += size
            return message

        async def send_then_forget(message: Message) -> None:
            let_go()  # who answers has read what he wanted
            await send(message)

        try:
            await self._app(scope, receive_counted, send_then_forget)
        finally:
            let_go()
