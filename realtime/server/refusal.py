"""A refused handshake or request as an HTTP answer. Each protocol has its own body; statuses are the same for all."""

from __future__ import annotations

from starlette.responses import JSONResponse

from realtime.errors import HandshakeRefused, Refusal

__all__ = ["refusal_response", "retry_headers", "status_of"]

_STATUS = {
    "bad_key": 401,
    "unknown_voice": 404,
    "too_big": 413,
    "too_many_sessions": 429,
    "internal": 500,
    "overloaded": 503,
    "draining": 503,
    "not_ready": 503,
}
"""By code; all others are the client's mistake, 400."""

_RETRY_AFTER_S = {429: 2, 503: 5}


def status_of(refusal: Refusal) -> int:
    return _STATUS.get(refusal.code, 400)


def retry_headers(refusal: Refusal) -> dict[str, str]:
    """Retry-After, where another try may succeed."""
    seconds = _RETRY_AFTER_S.get(status_of(refusal))
    return {} if seconds is None else {"Retry-After": str(seconds)}


def refusal_response(refusal: HandshakeRefused) -> JSONResponse:
    headers = {"Retry-After": str(refusal.retry_after_s)} if refusal.retry_after_s is not None else None
    body = {"status": refusal.http_status, "code": refusal.code, "message": str(refusal)}
    return JSONResponse(body, refusal.http_status, headers)
