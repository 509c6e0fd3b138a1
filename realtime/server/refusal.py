"""A refused handshake or request as an HTTP answer."""

from __future__ import annotations

from starlette.responses import JSONResponse

from realtime.errors import HandshakeRefused

__all__ = ["refusal_response"]


def refusal_response(refusal: HandshakeRefused) -> JSONResponse:
    headers = {"Retry-After": str(refusal.retry_after_s)} if refusal.retry_after_s is not None else None
    body = {"status": refusal.http_status, "code": refusal.code, "message": str(refusal)}
    return JSONResponse(body, refusal.http_status, headers)
