"""Floods of what costs a client little (tests/FAULTS.md): they end or wait, and an honest caller is served as ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.e2e.live import DEADLINE_S, Server, running
from tests.e2e.vendors import http

CONTINUATION, BINARY, PING, PONG, FINAL = 0x0, 0x2, 0x9, 0xA, 0x80
HANDSHAKE = (
    b"GET /v1/tts/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
BODY = b"POST /v1/tts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    config = {"max_message_bytes": 1 << 20, "max_out_bytes": 1 << 16, "stall_s": 60.0, "ping_s": 60.0}
    with running(config=config, engine={"slots": 4}) as server:
        yield server


def frame(opcode: int, data: bytes = b"") -> bytes:
    """With a mask of zeros, which leaves the data as they are."""
    assert len(data) < 126
    return bytes([opcode, 0x80 | len(data)]) + bytes(4) + data


def opened(server: Server) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
    peer.sendall(HANDSHAKE)
    assert peer.recv(1 << 16).startswith(b"HTTP/1.1 101")
    return peer


def flood(peer: socket.socket, frames: bytes, megabytes: int, *, reads: bool) -> bool:
    """Whether the server ended it before all was sent or read."""
    batch = frames * ((1 << 20) // len(frames))
    try:
        for _ in range(megabytes):
            peer.sendall(batch)
        return reads and b"" in iter(lambda: peer.recv(1 << 16)[:1], b"never")
    except ConnectionError:
        return True
    except TimeoutError:
        return False


async def is_served(server: Server) -> bool:
    async with server.caller() as caller:
        return bool((await caller.turn("Served as ever.", format="pcm", max_lead_s=0.5))[-1]["reason"] == "stop")


@pytest.mark.parametrize("opcode", [PONG, PING], ids=["pongs", "pings"])
async def test_tiny_frames_keep_nobody_waiting(server: Server, opcode: int) -> None:
    """Half a million of them; pings are answered to a client that reads."""
    peer = opened(server)

    def read_all() -> None:
        with suppress(OSError):
            while peer.recv(1 << 16):
                pass

    reading = asyncio.create_task(asyncio.to_thread(read_all))
    flooding = asyncio.create_task(asyncio.to_thread(flood, peer, frame(FINAL | opcode), 3, reads=False))
    assert await is_served(server)
    assert not await flooding, "an honest peer may send such frames"
    peer.shutdown(socket.SHUT_RDWR)
    await reading
    peer.close()


async def test_fragments_without_content_end_the_socket(server: Server) -> None:
    peer = opened(server)
    peer.sendall(frame(BINARY, b"x"))
    assert await asyncio.to_thread(flood, peer, frame(CONTINUATION), 2, reads=True)
    peer.close()
    assert await is_served(server)


async def test_pings_of_a_client_that_does_not_read_end_the_socket(server: Server) -> None:
    """Each is answered with as much as it brought, which would wait in memory for ever."""
    before_bytes = server.rss_bytes()
    peer = opened(server)
    assert await asyncio.to_thread(flood, peer, frame(FINAL | PING, bytes(125)), 64, reads=False)
    peer.close()
    assert server.rss_bytes() - before_bytes < 32 << 20
    assert await is_served(server)


async def test_large_bodies_held_half_sent_are_refused_beyond_a_bound(server: Server) -> None:
    """Thirty times most of a megabyte, where sixteen whole ones are held."""
    peers = [socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) for _ in range(30)]
    for peer in peers:
        peer.sendall(BODY % (1 << 20, bytes(1_000_000)))
    answers = []
    for peer in peers:
        peer.settimeout(0.2)
        with suppress(TimeoutError):
            answers.append(peer.recv(1 << 16))
    assert answers
    assert all(answer.startswith(b"HTTP/1.1 503") and b"retry-after" in answer.lower() for answer in answers)
    for peer in peers:
        peer.close()
    async with asyncio.timeout(DEADLINE_S), http(server) as client:
        while (answer := await client.post("/v1/tts", json={"text": "Served as ever."})).status_code == 503:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert answer.status_code == 200


async def test_a_second_request_cannot_be_smuggled_in_a_body_with_two_lengths(server: Server) -> None:
    peer = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
    peer.sendall(
        b"POST /v1/tts HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    heard = b"".join(iter(lambda: peer.recv(1 << 16), b""))
    peer.close()
    assert heard.startswith(b"HTTP/1.1 400")
    assert heard.count(b"HTTP/1.1") == 1


async def test_none_of_this_is_a_traceback(server: Server) -> None:
    peer = opened(server)
    peer.sendall(frame(FINAL | 0x1, b"\xff\xfe"))  # a text that is no UTF-8
    assert b"\x03\xef" in b"".join(iter(lambda: peer.recv(1 << 16), b"")), "closed with 1007"
    peer.close()
    assert "Traceback" not in "".join(server.log)
