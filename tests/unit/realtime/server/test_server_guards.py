"""The guards around the application, called as ASGI has it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from realtime.errors import Overloaded
from realtime.server.guards import BoundedBodies, OneLength

ANSWER = {"type": "http.response.start", "status": 200, "headers": []}


def scope(*names: bytes, kind: str = "http") -> dict[str, Any]:
    return {"type": kind, "method": "POST", "headers": [(name, b"x") for name in names]}


class Peer:
    """Sends pieces of a body, and notes what it hears."""

    def __init__(self, *pieces: int) -> None:
        self.pieces = list(pieces)
        self.heard: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": bytes(self.pieces.pop(0)), "more_body": bool(self.pieces)}

    async def send(self, message: Any) -> None:
        self.heard.append(message)


async def reads_all(_: Any, receive: Any, send: Any) -> None:
    while (await receive())["more_body"]:
        pass
    await send(ANSWER)


@pytest.mark.parametrize(
    ("names", "status"),
    [
        ([], 200),
        ([b"content-length"], 200),
        ([b"transfer-encoding"], 200),
        ([b"content-length", b"transfer-encoding"], 400),
    ],
)
async def test_a_body_has_one_length(names: list[bytes], status: int) -> None:
    peer = Peer(1)
    await OneLength(reads_all)(scope(*names), peer.receive, peer.send)
    assert peer.heard[0]["status"] == status
    if status == 400:
        assert (b"connection", b"close") in peer.heard[0]["headers"]
        assert peer.pieces == [1], "what it holds may be another request"


async def test_bodies_together_are_bounded_and_each_counts_until_its_answer() -> None:
    answering = asyncio.Event()

    async def reads_and_waits(asked: Any, receive: Any, send: Any) -> None:
        await receive()
        if b"waits" in {name for name, _ in asked["headers"]}:
            await answering.wait()
        await send(ANSWER)

    app = BoundedBodies(reads_and_waits, max_bytes=100)
    first, second = Peer(60), Peer(60)
    under_way = asyncio.create_task(app(scope(b"waits"), first.receive, first.send))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await app(scope(), second.receive, second.send)
    answering.set()
    await under_way
    third = Peer(100)
    await app(scope(), third.receive, third.send)
    assert third.heard == [ANSWER]


async def test_a_request_that_fails_or_is_cancelled_gives_back_what_it_held() -> None:
    async def fails(_: Any, receive: Any, send: Any) -> None:
        await receive()
        raise RuntimeError("a fault of ours")

    app = BoundedBodies(fails, max_bytes=100)
    for _ in range(3):
        peer = Peer(100)
        with pytest.raises(RuntimeError):
            await app(scope(), peer.receive, peer.send)


async def test_sockets_are_none_of_their_business() -> None:
    seen: list[str] = []

    async def app(asked: Any, receive: Any, send: Any) -> None:
        seen.append(asked["type"])

    peer = Peer()
    asked = scope(b"content-length", b"transfer-encoding", kind="websocket")
    await OneLength(BoundedBodies(app, max_bytes=0))(asked, peer.receive, peer.send)
    assert seen == ["websocket"]
