"""The JSON body of a request: bounded, and checked against its type."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from realtime.errors import BadRequest, TooBig

__all__ = ["read_body", "read_json"]

_Body = TypeVar("_Body")


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Raises TooBig, and BadRequest if the client is gone before its end."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > max_bytes:
                raise TooBig(f"the body has over {max_bytes} bytes, which is the limit")
    except ClientDisconnect:
        raise BadRequest("the body ended early") from None
    return bytes(body)


async def read_json(request: Request, kind: type[_Body], max_bytes: int) -> _Body:
    """Raises TooBig, and BadRequest naming the field."""
    body = await read_body(request, max_bytes)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadRequest(f"body: {error}") from None
