"""Clients of the other vendors' protocols, as bare as they come: JSON and bytes over real sockets, HTTP by httpx."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.e2e.live import DEADLINE_S, Server

__all__ = ["Peer", "http", "peer", "refused_handshake"]


class Peer:
    """`heard`: maps for JSON, bytes for binary messages."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: list[Any] = []

    async def say(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self.socket.send(json.dumps(message))

    async def hear(self, **fields: Any) -> dict[str, Any]:
        """Listen until a map with these fields comes; everything is noted."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                frame = await self.socket.recv()
                self.heard.append(frame if isinstance(frame, bytes) else json.loads(frame))
                message = self.heard[-1]
                if isinstance(message, dict) and fields.items() <= message.items():
                    return message

    async def hear_sound(self) -> bytes:
        """Listen until a binary message comes."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                frame = await self.socket.recv()
                self.heard.append(frame if isinstance(frame, bytes) else json.loads(frame))
                if isinstance(frame, bytes):
                    return frame

    async def closed(self) -> int:
        """Listen to the end; the server's close code."""
        with pytest.raises(ConnectionClosed) as end:
            await self.hear(no="such message")
        assert end.value.rcvd is not None
        return end.value.rcvd.code

    def sound(self, key: str = "", **fields: Any) -> bytes:
        """All sound heard: binary messages, or the base64 of this key in maps with these fields."""
        if not key:
            return b"".join(item for item in self.heard if isinstance(item, bytes))
        maps = [item for item in self.heard if isinstance(item, dict) and fields.items() <= item.items()]
        return b"".join(base64.b64decode(item[key]) for item in maps if item.get(key))


@asynccontextmanager
async def peer(server: Server, path: str, **options: Any) -> AsyncIterator[Peer]:
    options = {"max_size": None, "open_timeout": DEADLINE_S, "close_timeout": 2.0} | options
    async with connect(f"ws://127.0.0.1:{server.port}{path}", **options) as socket:
        yield Peer(socket)


async def refused_handshake(server: Server, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """Status and JSON body."""
    with pytest.raises(InvalidStatus) as refusal:
        async with peer(server, path, **options):
            pass
    body = refusal.value.response.body
    assert body is not None
    return refusal.value.response.status_code, json.loads(body)


@asynccontextmanager
async def http(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    base = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=base, timeout=DEADLINE_S, trust_env=False) as client:
        yield client
