"""The far side of the wire for client tests: a socket that says what a test tells it to say.

async def behave(peer: Peer) -> None:
    await peer.until("stop")
    await peer.audio(b"\\0" * 960)
    await peer.send("finish", reason="stop")

async with live_server(behave) as server:
    AsyncClient(server.url)
"""

from __future__ import annotations

import asyncio
import http
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

__all__ = ["CHUNK", "CHUNK_MS", "LiveServer", "Peer", "Refusal", "live_server", "one_reply", "replies"]

AUDIO_RATE_HZ = 24_000


@dataclass(slots=True)
class Peer:
    """One socket, seen from the server; pings of clients are not shown."""

    socket: ServerConnection
    connection: int
    """Counts sockets from 1."""
    received: list[dict[str, Any]] = field(default_factory=list)

    async def receive(self) -> dict[str, Any]:
        while True:
            message = msgspec.msgpack.decode(await self.socket.recv())
            if message["event"] != "ping":
                self.received.append(message)
                return message

    async def until(self, event: str) -> dict[str, Any]:
        while (message := await self.receive())["event"] != event:
            pass
        return message

    async def send(self, event: str, **fields: Any) -> None:
        await self.socket.send(msgspec.msgpack.encode({"event": event, **fields}))

    async def audio(self, pcm: bytes, utterance: int = 1, **fields: Any) -> None:
        duration_ms = len(pcm) / 2 / AUDIO_RATE_HZ * 1000
        await self.send("audio", audio=pcm, utterance=utterance, duration_ms=duration_ms, **fields)

    async def gone(self) -> None:
        """Wait for the client to close."""
        await self.socket.wait_closed()

    def reset(self) -> None:
        """What a dying host does: no close frame, no FIN."""
        self.socket.transport.abort()


@dataclass(slots=True)
class Refusal:
    status: int
    code: str
    retry_after_s: int | None = None


@dataclass(slots=True)
class LiveServer:
    url: str
    requests: list[Request] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """What was said on each socket."""
        return ["".join(m["text"] for m in peer.received if m["event"] == "text") for peer in self.peers]


@asynccontextmanager
async def live_server(
    behave: Callable[[Peer], Awaitable[None]], *, refusal: Refusal | None = None
) -> AsyncIterator[LiveServer]:
    """A server on a free port. The socket stays open after `behave` returns, until the client closes it."""
    server = LiveServer("")
    failures: list[Exception] = []

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        server.requests.append(request)
        if refusal is None:
            return None
        body = {"status": refusal.status, "code": refusal.code, "message": f"no: {refusal.code}"}
        response = connection.respond(http.HTTPStatus(refusal.status), json.dumps(body))
        if refusal.retry_after_s is not None:
            response.headers["Retry-After"] = str(refusal.retry_after_s)
        return response

    async def handle(socket: ServerConnection) -> None:
        peer = Peer(socket, len(server.peers) + 1)
        server.peers.append(peer)
        try:
            await behave(peer)
            await socket.wait_closed()
        except ConnectionClosed:
            pass
        except Exception as error:
            failures.append(error)
            raise

    async with asyncio.timeout(30):
        async with serve(handle, "127.0.0.1", 0, process_request=answer, compression=None, max_size=None) as listening:
            port = listening.sockets[0].getsockname()[1]
            server.url = f"ws://127.0.0.1:{port}/v1/tts/live"
            yield server
    assert not failures, failures


CHUNK = b"\1\0" * 960
CHUNK_MS = 40.0


async def one_reply(peer: Peer) -> None:
    """Two chunks and a finish for the first stream."""
    await peer.until("stop")
    await peer.audio(CHUNK)
    await peer.audio(CHUNK)
    await peer.send("finish", reason="stop")


async def replies(peer: Peer) -> None:
    """A chunk and a finish for each stream, its number in the samples."""
    number = 0
    while True:
        number += 1
        await peer.until("stop")
        await peer.audio(bytes([number, 0]) * 960, utterance=number)
        await peer.send("finish", reason="stop")
