"""The body of a request: bounded in bytes and time; JSON is checked against its type."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from realtime.errors import BadRequest, TooBig

__all__ = ["read_body", "read_json"]

BODY_S = 60.0

_Body = TypeVar("_Body")


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Raises TooBig, and BadRequest if the client is gone before its end or takes too long."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > max_bytes:
                    raise TooBig(f"the body has over {max_bytes} bytes, which is the limit")
    except TimeoutError:
        raise BadRequest(f"the body did not come within {BODY_S:g} s") from None
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
