"""Faults of who may come in, and of an engine that died (groups K and N of tests/FAULTS.md)."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest
from kingfisher_client import AsyncClient, ConnectRefused
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from tests.e2e.live import DEADLINE_S, Server, all_of, running, until
from tests.e2e.test_server_leaving import stuck_client

KEY, OTHER = "kf-secret-7f3a", "kf-other-11"
LONG = "This sentence belongs to a story that takes a while. " * 40


def post_for_token(server: Server, key: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/tokens", method="POST", headers={"Authorization": f"Bearer {key}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.loads(refusal.read())


async def test_fault_105_a_page_comes_in_with_a_token_and_never_holds_the_key() -> None:
    with running(config={"api_keys": [OTHER, KEY]}) as server:
        status, made = await asyncio.to_thread(post_for_token, server, KEY)
        assert status == 200
        token = made["token"]
        assert 0 < made["expires_in_s"] <= 60
        async with server.caller(f"api_key={token}") as caller:
            assert (await caller.turn("In by the query.", format="pcm"))[-1]["reason"] == "stop"
        offered = [Subprotocol("kingfisher"), Subprotocol(token)]
        async with server.caller(subprotocols=offered) as caller:
            await caller.hear("ready")
            assert caller.socket.subprotocol == "kingfisher"
        assert (await asyncio.to_thread(post_for_token, server, token))[0] == 401, "a token makes no token"
        assert (await asyncio.to_thread(post_for_token, server, "wrong"))[0] == 401
        with pytest.raises(InvalidStatus) as refused:
            await connect(server.url(f"api_key={token[:-1]}"))
        assert refused.value.response.status_code == 401
    log = "".join(server.log)
    assert KEY not in log
    assert token not in log


async def test_fault_78_a_key_over_its_limit_is_a_typed_error_and_other_keys_go_on() -> None:
    with running(config={"api_keys": [KEY, OTHER], "key_sessions": 2, "key_sessions_per_minute": 3}) as server:
        address = f"ws://127.0.0.1:{server.port}/v1/tts/live"

        async def refused(key: str) -> ConnectRefused:
            with pytest.raises(ConnectRefused) as refusal:
                await AsyncClient(address, api_key=key).connect()
            return refusal.value

        async with AsyncClient(address, api_key=KEY), AsyncClient(address, api_key=KEY):
            error = await refused(KEY)
            assert (error.status, error.code) == (429, "too_many_sessions")
            assert error.is_retryable
            assert error.retry_after_s
            assert "2 sessions open" in str(error)
            async with server.caller(f"api_key={OTHER}") as caller:
                await caller.hear("ready")
        await server.metric_becomes("kingfisher_sessions", 0)
        async with AsyncClient(address, api_key=KEY):
            pass
        assert "3 sessions a minute" in str(await refused(KEY))
        assert KEY not in str(await refused(KEY))


async def test_fault_50_ten_times_the_limit_at_once_is_answered_at_once() -> None:
    with running(config={"max_sessions": 4}, engine={"slots": 4}) as server:
        process = server.process.pid

        async def one() -> int:
            try:
                async with server.caller() as caller:
                    await caller.turn("One of very many.", format="pcm", max_lead_s=0.5)
                    return 200
            except InvalidStatus as refusal:
                return refusal.response.status_code if refusal.response.headers["Retry-After"] else 0

        answers = await all_of(*(one() for _ in range(40)))
        assert set(answers) == {200, 429}
        assert answers.count(200) >= 4
        async with server.caller() as caller:
            assert (await caller.turn("And one afterwards.", format="pcm"))[-1]["reason"] == "stop"
        assert (server.process.pid, server.process.poll()) == (process, None)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /v1/tts/live HTTP/1.1\r\nHost: x\r\nUpgr", b"POST /v1/tokens HTTP/1.1\r\n"]
)
async def test_a_connection_that_never_says_what_it_wants_is_ended(sent: bytes) -> None:
    with running(config={"handshake_s": 0.3}) as server, socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.settimeout(DEADLINE_S)
        peer.sendall(sent)
        assert ended(peer), "the server still waits"
        async with server.caller() as caller:
            await caller.hear("ready")
            await asyncio.sleep(0.6)
            assert (await caller.turn("Whoever came in stays.", format="pcm"))[-1]["reason"] == "stop"


def ended(peer: socket.socket) -> bool:
    """Wait for the far side to close or reset."""
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


async def test_bytes_that_trickle_do_not_put_the_end_off() -> None:
    with running(config={"handshake_s": 1.0}) as server, socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.settimeout(0.1)
        head = b"GET / HTTP/1.1\r\nX-Slow: " + b"a" * 10_000

        def trickle() -> bool:
            for byte in head:
                try:
                    peer.send(bytes([byte]))
                    return peer.recv(1) == b""
                except TimeoutError:
                    continue
                except (ConnectionResetError, BrokenPipeError):
                    return True
            return False

        async with asyncio.timeout(DEADLINE_S):
            assert await asyncio.to_thread(trickle)


async def test_unfinished_connections_are_bounded_and_keep_nobody_out() -> None:
    """The oldest make room; with a few hundred of them open, an honest caller comes in as ever."""
    with running(config={"handshake_s": 60}) as server:
        peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(560)]
        try:
            async with server.caller() as caller:
                await caller.hear("ready")
            peers[0].settimeout(DEADLINE_S)
            assert ended(peers[0])
            peers[-1].setblocking(False)
            with pytest.raises(BlockingIOError):
                peers[-1].recv(1)
        finally:
            for peer in peers:
                peer.close()


async def test_fault_84_a_dead_engine_ends_the_process_though_a_client_does_not_read() -> None:
    """Sessions are told, readiness is gone first, and nobody's silence holds up the exit."""
    with running(engine={"fail_at_step": 400}) as server:
        async with server.caller() as idle:
            await idle.hear("ready")
            stuck = await stuck_client(server.port)
            assert (await idle.closed())[0] == 1011
            assert idle.heard[-1]["event"] == "error"
        async with asyncio.timeout(4):  # a second is the aim; the machine may be busy
            code = await asyncio.to_thread(server.wait_for_exit)
        stuck.close()
    assert code == 1


def answers_within(server: Server, seconds: float) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=seconds):
            return True
    except TimeoutError:
        return False


async def test_fault_84_a_stopped_process_is_not_ready_and_then_goes_on() -> None:
    """SIGSTOP: no answer is no readiness. After SIGCONT the engine gets time to come round and nobody is dropped."""
    with running() as server:
        async with server.caller() as caller:
            await caller.hear("ready")
            server.process.send_signal(signal.SIGSTOP)
            assert not await asyncio.to_thread(answers_within, server, 0.5)
            server.process.send_signal(signal.SIGCONT)
            await asyncio.to_thread(until, lambda: server.get("/readyz")[0] == 200)
            assert (await caller.turn("It goes on.", format="pcm"))[-1]["reason"] == "stop"
