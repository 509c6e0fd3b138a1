"""TLS that is never finished, or ends as nobody agreed on, and answers that nobody takes: every wait has an end, and
nothing of them remains."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from tests.certificates import self_signed
from tests.e2e.live import DEADLINE_S, Server, running, until
from tests.faults.test_faults_access import ended

LONG = "This sentence belongs to a long story that nobody will hear to its end. " * 40
UPGRADE = (
    b"GET /v1/tts/live HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


@contextmanager
def secured(certificate: tuple[Path, Path], engine: dict[str, Any] | None = None, **config: Any) -> Iterator[Server]:
    cert, key = certificate
    with running(config={"tls_cert": str(cert), "tls_key": str(key)} | config, engine=engine or {}) as server:
        server.trust = ssl.create_default_context(cafile=cert)
        yield server


class Peer:
    """A client by hand, over a small receive buffer: what it does not say and does not take is up to the test."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.socket.connect(("127.0.0.1", server.port))
        self.socket.settimeout(DEADLINE_S)
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        trust = server.trust or ssl.create_default_context()
        self.tls = trust.wrap_bio(self._coming, self._going, server_hostname="localhost")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def hello(self) -> bytes:
        """The first flight, not sent yet."""
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._going.read()

    def shake_hands(self) -> Self:
        self.socket.sendall(self.hello())
        while True:
            self._coming.write(self.socket.recv(65_536))
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                continue
            self.push()
            return self

    def push(self) -> None:
        self.socket.sendall(self._going.read())

    def say(self, data: bytes) -> None:
        self.tls.write(data)
        self.push()

    def hear(self) -> bytes:
        while True:
            try:
                return self.tls.read(65_536)
            except ssl.SSLWantReadError:
                self._coming.write(self.socket.recv(65_536))

    def say_goodbye(self) -> None:
        """close_notify, and no FIN."""
        with suppress(ssl.SSLError):
            self.tls.unwrap()
        self.push()

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def begin_speech(self, lead_s: float) -> None:
        """To its first sound."""
        self.say(UPGRADE)
        assert b" 101 " in self.hear()
        request = {"text": LONG, "format": "pcm", "max_lead_s": lead_s}
        payload = msgspec.msgpack.encode({"event": "start", "request": request})
        self.say(b"\x82" + bytes([0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4) + payload)
        while b"audio" not in self.hear():
            pass


def speech_of(sentences: int) -> bytes:
    """A request for sound at 96 kB/s, after which the connection closes."""
    body = json.dumps({"text": "Words that are spoken. " * sentences, "format": "pcm", "sample_rate": 48_000}).encode()
    head = f"POST /v1/tts HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + body


UNFINISHED: dict[str, Callable[[Peer], bytes]] = {
    "nothing": lambda peer: b"",
    "half a hello": lambda peer: peer.hello()[:100],
    "a hello": lambda peer: peer.hello(),
}


@pytest.mark.parametrize("said", UNFINISHED)
async def test_a_handshake_that_is_not_finished_has_an_end(certificate: tuple[Path, Path], said: str) -> None:
    with secured(certificate, handshake_s=0.3) as server:
        before = server.descriptors()
        async with server.caller() as caller:
            with Peer(server) as peer:
                peer.socket.sendall(UNFINISHED[said](peer))
                await asyncio.to_thread(taken_to_the_end, peer.socket)
            assert (await caller.turn("Whoever came in stays.", format="pcm"))[-1]["reason"] == "stop"
        await asyncio.to_thread(until, lambda: server.descriptors() == before)
        assert "Traceback" not in "".join(server.log)


def taken_to_the_end(peer: socket.socket) -> None:
    while not ended(peer):
        pass


async def test_unfinished_handshakes_are_bounded_and_keep_nobody_out(certificate: tuple[Path, Path]) -> None:
    with secured(certificate, handshake_s=60) as server:
        peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(560)]
        try:
            async with server.caller() as caller:
                await caller.hear("ready")
            await asyncio.to_thread(until, lambda: sum(map(is_over, peers)) >= 40)
            assert sum(map(is_over, peers)) < 60
        finally:
            for peer in peers:
                peer.close()


def is_over(peer: socket.socket) -> bool:
    """As far as the peer knows by now."""
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True
    except BlockingIOError:
        return False


async def test_a_server_that_ends_does_not_wait_for_handshakes(certificate: tuple[Path, Path]) -> None:
    with secured(certificate, handshake_s=60) as server:
        peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
        assert server.get("/healthz")[0] == 200  # by now they were accepted
        server.process.send_signal(signal.SIGTERM)
        for peer in peers:
            peer.settimeout(DEADLINE_S)
            assert ended(peer)
            peer.close()
        assert await asyncio.to_thread(server.wait_for_exit) == 0
    assert "ERROR" not in "".join(server.log)


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path]) -> Iterator[Server]:
    with secured(certificate, {"slots": 1}, stall_s=1.0) as server:
        yield server


ENDS: dict[str, Callable[[Peer], object]] = {
    "close_notify without FIN": Peer.say_goodbye,
    "FIN without close_notify": lambda peer: peer.socket.shutdown(socket.SHUT_WR),
    "RST": Peer.reset,
    "no TLS any more": lambda peer: peer.socket.sendall(b"GET / HTTP/1.1\r\n\r\n"),
}


@pytest.mark.parametrize("lead_s", [0.5, 30.0], ids=["taken", "not taken"])
@pytest.mark.parametrize("end", ENDS)
async def test_a_stream_that_ends_in_its_own_way_leaves_nothing(server: Server, end: str, lead_s: float) -> None:
    """With a lead of half a minute all buffers are full when the end comes."""
    with await asyncio.to_thread(lambda: Peer(server).shake_hands()) as peer:
        await asyncio.to_thread(peer.begin_speech, lead_s)
        await server.metric_becomes("kingfisher_slots_used", 1)
        ENDS[end](peer)
        await server.metric_becomes("kingfisher_slots_used", 0)
        await server.metric_becomes("kingfisher_sessions", 0)
        async with server.caller() as caller:
            assert (await caller.turn("The only slot is free again.", format="pcm"))[-1]["reason"] == "stop"
    log = "".join(server.log)
    assert "Traceback" not in log
    assert "never retrieved" not in log


async def test_half_a_record_and_then_silence_is_noticed_by_pings(certificate: tuple[Path, Path]) -> None:
    with secured(certificate, ping_s=0.3) as server, Peer(server) as peer:
        await asyncio.to_thread(peer.shake_hands)
        await asyncio.to_thread(peer.begin_speech, 0.5)
        await server.metric_becomes("kingfisher_sessions", 1)
        peer.socket.sendall(b"\x17\x03\x03\x40\x00" + bytes(100))
        await server.metric_becomes("kingfisher_sessions", 0)


async def test_a_reset_in_the_handshake_leaves_nothing(server: Server) -> None:
    before = server.descriptors()
    for said in list(UNFINISHED.values()) * 10:
        peer = Peer(server)
        peer.socket.sendall(said(peer))
        peer.reset()
    assert server.get("/healthz")[0] == 200
    await asyncio.to_thread(until, lambda: server.descriptors() == before)
    assert "Traceback" not in "".join(server.log)


async def test_http_at_the_door_of_tls_and_tls_at_the_door_of_http_are_turned_away(server: Server) -> None:
    with running() as plain, Peer(server) as peer:
        for port, sent in ((server.port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), (plain.port, peer.hello())):
            with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as stranger:
                stranger.sendall(sent)
                await asyncio.to_thread(taken_to_the_end, stranger)
        for each in (server, plain):
            assert each.get("/healthz")[0] == 200
            assert "Traceback" not in "".join(each.log)


async def test_sound_over_tls_is_handed_over_as_it_is_taken(certificate: tuple[Path, Path]) -> None:
    """What was handed over and is not taken is lost when the close has lasted too long: a client that took 16 kB/s lost
    the last 9 s of 80, as half a megabyte lay between it and the server. Here the server still waits for its client
    with less than that, and so notices that it takes nothing."""
    with secured(certificate, stall_s=0.3) as server:
        with await asyncio.to_thread(lambda: Peer(server).shake_hands()) as peer:
            await asyncio.to_thread(peer.say, speech_of(sentences=3))
            await server.metric_becomes("kingfisher_clients_dropped_total", 1)
        with Peer(server).shake_hands() as peer:
            peer.say(speech_of(sentences=3))
            size = 0
            while data := await asyncio.to_thread(peer.hear):
                size += len(data)
    assert 300_000 < size < 500_000, "less than the loop's own buffer, more than ours"


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
async def test_an_answer_that_nobody_takes_has_an_end(certificate: tuple[Path, Path], is_secure: bool) -> None:
    """It is short enough to be handed over whole, so that only the kernel still waits for its client."""
    with secured(certificate, stall_s=0.1) if is_secure else running(config={"stall_s": 0.1}) as server:
        before = server.descriptors()
        with Peer(server) as peer:
            if is_secure:
                await asyncio.to_thread(peer.shake_hands)
                peer.say(speech_of(sentences=1))
            else:
                peer.socket.sendall(speech_of(sentences=1))
            await asyncio.to_thread(until, lambda: server.descriptors() > before)
            await asyncio.to_thread(until, lambda: server.descriptors() == before)
        assert await server.metric("kingfisher_clients_dropped_total") == 0, "it was to be handed over whole"
