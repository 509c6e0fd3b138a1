"""Sessions that take their sound too slowly: what they cost the others is what a run with them shows."""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

__all__ = ["read_slowly"]

RECEIVE_BYTES = 4096
"""Of the socket: what the server sends beyond it and its own buffers has to wait there."""
READ_EVERY_S = 2.0
"""A message; speech comes ten times as fast."""
SENTENCES = 40

_pack = msgspec.msgpack.Encoder().encode


async def read_slowly(url: str, texts: list[str], request: dict[str, Any]) -> None:
    """Ask for a long speech and read a message now and then, for ever; anew when the server has had enough."""
    address = urlsplit(url)
    while True:
        raw = sockets.socket()
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, RECEIVE_BYTES)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, (address.hostname, address.port))
        with contextlib.suppress(ConnectionClosed):
            async with connect(url, sock=raw, compression=None, max_queue=1) as socket:
                await socket.send(_pack({"event": "start", "request": request}))
                await socket.send(_pack({"event": "text", "text": " ".join(texts[:SENTENCES])}))
                await socket.send(_pack({"event": "stop"}))
                while True:
                    await asyncio.sleep(READ_EVERY_S)
                    await socket.recv()
        await asyncio.sleep(READ_EVERY_S)
