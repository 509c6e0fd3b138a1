"""Clients that leave, in every way and at any moment, or stay without reading: nothing of them remains."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Iterator

import msgspec
import pytest

from tests.e2e.live import Caller, Server, all_of, pcm, running

LONG = "This sentence belongs to a long story that nobody will hear to its end. " * 60


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(engine={"slots": 4, "prefill_s": 0.02}, config={"stall_s": 1.0}) as server:
        yield server


def vanish(caller: Caller) -> None:
    """Reset the connection, as a process that is killed does."""
    raw = caller.socket.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.socket.transport.abort()


async def nothing_remains(server: Server) -> None:
    await server.metric_becomes("kingfisher_sessions", 0)
    await server.metric_becomes("kingfisher_slots_used", 0)
    await server.metric_becomes("kingfisher_sessions_speaking", 0)
    steps = await server.metric("kingfisher_decode_rows_count")
    async with server.caller() as caller:
        await caller.turn("The server is as good as new.", format="pcm")
    used = await server.metric("kingfisher_decode_rows_count") - steps
    assert used < 80, "the engine works for this session alone"


@pytest.mark.parametrize("moment", ["connect", "start", "prefill", "speech", "stop", "clip"])
@pytest.mark.parametrize("way", ["reset", "close"])
async def test_a_slot_comes_back_whenever_its_client_leaves(server: Server, moment: str, way: str) -> None:
    async def one() -> None:
        async with server.caller() as caller:
            if moment == "clip":
                await caller.say("start", request={"references": [{"audio": bytes(1 << 20), "text": "x"}]})
            elif moment != "connect":
                await caller.start(format="pcm", max_lead_s=0.5)
            if moment in ("prefill", "speech", "stop"):
                await caller.say("text", text=LONG)
            if moment in ("speech", "stop"):
                await caller.hear("audio")
            if moment == "stop":
                await caller.say("stop")
            if way == "reset":
                vanish(caller)

    await all_of(*(one() for _ in range(10)))
    await nothing_remains(server)


async def test_many_clients_that_die_at_random_leave_no_trace(server: Server) -> None:
    chance = random.Random(5)

    async def one(events: int) -> None:
        async with server.caller() as caller:
            await caller.start(LONG, format="opus_packets", max_lead_s=1.0)
            for _ in range(events):
                await caller.hear("audio")
            vanish(caller)

    for _ in range(10):
        await all_of(*(one(chance.randrange(8)) for _ in range(10)))
    await nothing_remains(server)
    assert "Traceback" not in "".join(server.log)


async def test_a_stop_right_before_the_close_is_not_carried_out(server: Server) -> None:
    before_s = await server.metric("kingfisher_audio_seconds_total")
    async with server.caller() as caller:
        await caller.start(LONG, format="pcm", max_lead_s=0.5)
        await caller.hear("audio")
        await caller.say("stop")
    await nothing_remains(server)
    assert await server.metric("kingfisher_audio_seconds_total") - before_s < 10, "of minutes of speech"


async def test_a_client_that_does_not_read_is_dropped_and_frees_its_slot(server: Server) -> None:
    """The socket is read by nobody; its buffers are small, so that they fill in a test's time."""
    dropped = await server.metric("kingfisher_clients_dropped_total")
    before_bytes = server.rss_bytes()
    stuck = [await stuck_client(server.port) for _ in range(3)]
    try:
        async with server.caller() as caller:
            for _ in range(2):
                messages = await caller.turn("A client that reads is not affected. " * 3, format="pcm")
                assert len(pcm(messages)) > 0
        await server.metric_becomes("kingfisher_clients_dropped_total", dropped + 3)
    finally:
        for client in stuck:
            client.close()
    assert server.rss_bytes() - before_bytes < 64 << 20
    await nothing_remains(server)


@pytest.mark.slow
async def test_a_peer_that_vanished_is_noticed_by_its_silence() -> None:
    """It answers no ping, idle or in the middle of speech: within two ping intervals its session is gone."""
    with running() as server:
        vanished = [await deaf_client(server.port), await stuck_client(server.port)]
        await server.metric_becomes("kingfisher_sessions", 2)
        await asyncio.sleep(35)
        await server.metric_becomes("kingfisher_sessions", 0)
        for client in vanished:
            client.close()


async def stuck_client(port: int) -> socket.socket:
    """Asks for speech, then reads nothing."""
    client = await deaf_client(port)
    request = {"format": "pcm", "sample_rate": 48_000, "max_lead_s": 30, "text": LONG}
    payload = msgspec.msgpack.encode({"event": "start", "request": request})
    frame = b"\x82" + bytes([0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4) + payload
    await asyncio.get_running_loop().sock_sendall(client, frame)
    return client


async def deaf_client(port: int) -> socket.socket:
    """A handshake by hand, then silence on a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    handshake = (
        f"GET /v1/tts/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    await loop.sock_sendall(client, handshake.encode())
    assert (await loop.sock_recv(client, 12)) == b"HTTP/1.1 101"
    return client


async def test_a_client_that_reads_again_learns_why_it_was_dropped(server: Server) -> None:
    async with server.caller() as caller:
        await caller.start(LONG, format="pcm", sample_rate=48_000, max_lead_s=30)
        caller.socket.transport.pause_reading()
        dropped = await server.metric("kingfisher_clients_dropped_total")
        await server.metric_becomes("kingfisher_clients_dropped_total", dropped + 1)
        caller.socket.transport.resume_reading()
        code, reason = await caller.closed()
    assert code == 4408
    assert reason
