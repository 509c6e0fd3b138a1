"""Encoder processes that die, stop, or stop for a while: what callers hear, and how the server ends."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import pytest

from tests.e2e.live import Server, running, until
from tests.server_process import children_of

LONG = "This sentence belongs to a story that takes a while. " * 40


def signal_one(server: Server, number: signal.Signals) -> int:
    """The first of the server's encoder processes gets it."""
    encoder = min(children_of(server.process.pid))
    os.kill(encoder, number)
    return encoder


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def test_when_an_encoder_process_is_killed_everybody_is_told_and_the_server_fails() -> None:
    with running(config={"workers": 2}) as server:
        async with server.caller() as one, server.caller() as other, server.caller() as idle:
            await idle.hear("ready")
            for speaking in (one, other):
                await speaking.start(LONG, format="pcm", max_lead_s=0.5)
                await speaking.hear("audio")
            signal_one(server, signal.SIGKILL)
            for speaking in (one, other):
                finish = await speaking.hear("finish")
                assert (finish["reason"], finish["code"]) == ("error", "internal")
                assert (await speaking.closed())[0] == 1011
            assert (await idle.closed())[0] == 1011
        assert await asyncio.to_thread(server.wait_for_exit) == 1
    assert "encoder process" in "".join(server.log)


async def test_an_encoder_process_that_goes_on_in_time_is_late_and_nothing_else() -> None:
    with running(config={"workers": 1}) as server:
        async with server.caller() as caller:
            await caller.start("These are a few words, which are spoken to their end.", format="pcm")
            signal_one(server, signal.SIGSTOP)
            await caller.say("stop")
            await asyncio.to_thread(until, lambda: server.get("/readyz")[0] == 503)
            signal_one(server, signal.SIGCONT)
            assert (await caller.hear("finish"))["reason"] == "stop"
            await asyncio.to_thread(until, lambda: server.get("/readyz")[0] == 200)
            again = await caller.turn("And some more.", format="pcm")
            assert again[-1]["reason"] == "stop"


@pytest.mark.slow
async def test_an_encoder_process_that_stays_stopped_is_noticed_and_the_server_fails() -> None:
    """Half a minute: HUNG_S and GRACE_S of realtime.server.hub."""
    with running(config={"workers": 2}) as server:
        async with server.caller() as caller:
            await caller.hear("ready")
            stopped = signal_one(server, signal.SIGSTOP)
            try:
                await asyncio.wait_for(caller.socket.wait_closed(), 60.0)
                assert caller.socket.close_code == 1011
                assert await asyncio.to_thread(server.wait_for_exit) == 1
                assert not is_alive(stopped)
            finally:
                with suppress(ProcessLookupError):
                    os.kill(stopped, signal.SIGCONT)
    assert "has not come round" in "".join(server.log)
