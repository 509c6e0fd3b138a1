"""From start to exit: what open sessions hear, and with which status the process ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.e2e.live import free_port, running, started, until

LONG = "This sentence belongs to a story that takes a while. " * 40


async def exit_code(server: object) -> int:
    return await asyncio.to_thread(server.wait_for_exit)  # type: ignore[attr-defined]


async def test_sigterm_lets_streams_finish_and_takes_nobody_new() -> None:
    with running(config={"drain_s": 30}) as server:
        async with server.caller() as idle, server.caller() as busy:
            await idle.hear("ready")
            await busy.start("This one may be finished, as it is short. " * 2, format="pcm", max_lead_s=0.5)
            await busy.hear("audio")
            server.process.send_signal(signal.SIGTERM)
            assert await idle.closed() == (1012, "the server is shutting down")
            with pytest.raises(InvalidStatus) as refused:
                await connect(server.url())
            assert refused.value.response.status_code == 503
            assert refused.value.response.headers["Retry-After"] == "5"
            assert b'"draining"' in (refused.value.response.body or b"")
            assert server.get("/readyz")[0] == 503
            assert server.get("/healthz")[0] == 200
            await busy.say("stop")
            assert (await busy.hear("finish"))["reason"] == "stop"
            assert (await busy.closed())[0] == 1012
        assert await exit_code(server) == 0


async def test_a_stream_that_outlives_the_drain_is_told_and_the_process_ends() -> None:
    with running(config={"drain_s": 0.5}) as server:
        async with server.caller() as busy:
            await busy.start(LONG, format="pcm", max_lead_s=0.5)
            await busy.hear("audio")
            server.process.send_signal(signal.SIGTERM)
            finish = await busy.hear("finish")
            assert (finish["reason"], finish["code"]) == ("error", "draining")
            assert (await busy.closed())[0] == 1012
        assert await exit_code(server) == 0


async def test_a_second_signal_does_not_wait() -> None:
    with running(config={"drain_s": 600}) as server:
        async with server.caller() as busy:
            await busy.start(LONG, format="pcm", max_lead_s=0.5)
            await busy.hear("audio")
            server.process.send_signal(signal.SIGINT)
            await asyncio.to_thread(until, lambda: server.get("/readyz")[0] == 503)
            server.process.send_signal(signal.SIGINT)
            assert (await busy.closed())[0] == 1012
        assert await exit_code(server) == 0


async def test_when_the_engine_dies_every_session_is_told_and_the_process_fails() -> None:
    with running(engine={"fail_at_step": 60}) as server:
        async with server.caller() as speaking, server.caller() as idle:
            await idle.hear("ready")
            await speaking.start(LONG, format="pcm")
            await speaking.hear("audio")
            finish = await speaking.hear("finish")
            assert (finish["reason"], finish["code"]) == ("error", "internal")
            assert (await speaking.closed())[0] == 1011
            assert (await idle.closed())[0] == 1011
            assert idle.heard[-1]["event"] == "error"
        assert await exit_code(server) == 1


async def test_an_idle_socket_is_closed_at_the_limit_and_a_new_one_speaks_on() -> None:
    with running(config={"idle_s": 1.0}) as server:
        async with server.caller() as caller:
            await caller.start("Before the pause.", format="pcm")
            await caller.say("flush")
            await caller.say("stop")
            await caller.hear("finish")
            assert await caller.closed() == (1000, "idle for 1 s")
        async with server.caller() as caller:
            messages = await caller.turn("After the pause.", format="pcm")
            assert messages[-1]["reason"] == "stop"


async def test_a_server_that_is_told_to_end_does_not_wait_for_its_model() -> None:
    with started(loads_until_told=True, config={"port": (port := free_port())}) as server:
        server.port = port
        await asyncio.to_thread(until, server.answers)
        server.process.send_signal(signal.SIGTERM)
        assert await exit_code(server) == 0


async def test_a_model_that_cannot_be_loaded_is_named() -> None:
    with started(load_error="tensor norm.weight is missing") as server:
        assert await exit_code(server) == 1
    assert "tensor norm.weight is missing" in "".join(server.log)
    assert "Traceback" not in "".join(server.log)


async def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started(config={"port": port}) as server:
            assert await exit_code(server) == 1
    assert f"port {port}" in "".join(server.log)
    assert "Traceback" not in "".join(server.log)


FROZEN = """
import gc, logging, os, signal, sys
from engine.null import NullEngine
from realtime.config import ServerConfig
from realtime.server.lifecycle import serve

class EndsWhenReady(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("ready:"):
            print(gc.get_freeze_count())
            os.kill(os.getpid(), signal.SIGTERM)

logging.basicConfig(level="INFO", handlers=[EndsWhenReady()])
sys.exit(serve(ServerConfig(port=0, voices_dir=sys.argv[1]), NullEngine))
"""


def test_a_ready_server_looks_through_its_modules_for_garbage_no_more(tmp_path: Path) -> None:
    """A full collection over a loaded model and its libraries would stop every thread for 0.15 s."""
    done = subprocess.run(
        [sys.executable, "-c", FROZEN, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) > 10_000
