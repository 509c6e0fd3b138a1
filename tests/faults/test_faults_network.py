"""Faults of the network between a client and the server (tests/FAULTS.md), played by a TCP proxy."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kingfisher_client import AsyncClient, StreamBroken
from websockets.asyncio.client import connect

from tests.e2e.live import ROOT, Caller, Server, pcm, running
from tests.faults.proxy import Network, network_before

LONG = "This sentence belongs to a long story that nobody will hear to its end. " * 40


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(engine={"slots": 4}, config={"stall_s": 1.0}) as server:
        yield server


def url(network: Network) -> str:
    return f"ws://127.0.0.1:{network.port}/v1/tts/live"


async def test_fault_27_a_reset_in_mid_stream_is_an_error_for_the_python_client(server: Server) -> None:
    async def listen(client: AsyncClient, network: Network) -> None:
        heard = 0
        async for _ in client.speak(LONG, format="pcm", max_lead_s=0.5):
            heard += 1
            if heard == 5:
                network.reset()

    async with network_before(server.port) as network, AsyncClient(url(network)) as client:
        with pytest.raises(StreamBroken) as broken:
            await listen(client, network)
    assert broken.value.audio_ms > 0
    assert broken.value.close_code is None


async def test_fault_27_a_reset_in_mid_stream_is_an_error_for_the_javascript_client(server: Server) -> None:
    async with network_before(server.port) as network:
        script = Path(__file__).with_name("listen.js")
        process = await asyncio.create_subprocess_exec(
            "node", str(script), str(ROOT / "clients/js/kingfisher.js"), url(network), stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(30):
            heard: list[str] = []
            while heard.count("audio") < 5:
                heard.append(json.loads(await process.stdout.readline())["type"])
            network.reset()
            lines = [json.loads(line) for line in (await process.stdout.read()).splitlines()]
            assert await process.wait() == 0
    assert lines[-1] == {"type": "error", "name": "StreamBroken"}


@pytest.mark.parametrize("moment", ["idle", "speech"])
async def test_fault_39_a_peer_behind_a_dead_network_is_noticed(moment: str) -> None:
    """No FIN, no RST: only pings that nobody answers tell. Meanwhile its session costs little."""
    with running(config={"ping_s": 0.5}, engine={"slots": 1}) as server:
        async with (
            network_before(server.port) as network,
            connect(url(network), ping_interval=None, close_timeout=0) as socket,
        ):
            caller = Caller(socket)
            await caller.hear("ready")
            if moment == "speech":
                await caller.start(LONG, format="pcm", max_lead_s=0.5)
                await caller.hear("audio")
            before_bytes = server.rss_bytes()
            network.go_silent()
            await server.metric_becomes("kingfisher_slots_used", 0)
            await server.metric_becomes("kingfisher_sessions", 0)
            assert server.rss_bytes() - before_bytes < 16 << 20
            socket.transport.abort()
        async with server.caller() as caller:
            assert (await caller.turn("The only slot is free again.", format="pcm"))[-1]["reason"] == "stop"


async def test_fault_62_a_proxy_that_drops_quiet_sockets_never_sees_one() -> None:
    """The ratio of a minute's limit to 20 s between pings, in small: an idle session outlives the limit many times."""
    with running(config={"ping_s": 0.5}) as server:
        async with (
            network_before(server.port, quiet_limit_s=1.5) as network,
            connect(url(network), ping_interval=None) as socket,
        ):
            caller = Caller(socket)
            await caller.hear("ready")
            await asyncio.sleep(4)
            messages = await caller.turn("Still here after a long silence.", format="pcm")
        assert messages[-1]["reason"] == "stop"
        assert network.resets == 0


@pytest.mark.slow
async def test_fault_62_a_proxy_that_drops_sockets_after_55_s_lets_one_live_for_five_minutes() -> None:
    with running() as server:
        async with (
            network_before(server.port, quiet_limit_s=55.0) as network,
            connect(url(network), ping_interval=None) as socket,
        ):
            caller = Caller(socket)
            await caller.hear("ready")
            await asyncio.sleep(300)
            messages = await caller.turn("Still here after five minutes.", format="pcm")
        assert messages[-1]["reason"] == "stop"
        assert network.resets == 0


async def test_fault_54_a_slow_network_slows_its_own_caller_alone(server: Server) -> None:
    text = "The neighbour hears this sentence at its own pace. "

    async def neighbour() -> int:
        async with server.caller() as caller:
            return len(pcm(await caller.turn(text, format="pcm")))

    alone = await neighbour()
    async with (
        network_before(server.port, bytes_per_s=60_000.0) as network,
        connect(url(network), ping_interval=None) as socket,
    ):
        caller = Caller(socket)
        await caller.start(text, format="pcm", max_lead_s=0.5)
        await caller.say("stop")
        assert await neighbour() == alone
        await caller.hear("finish")
    assert len(pcm(caller.heard)) == alone
    assert caller.heard[-1]["reason"] == "stop"


async def test_fault_40_a_socket_that_dies_at_any_event_is_an_ordinary_end(server: Server) -> None:
    async def one(network: Network, events: int) -> None:
        async with connect(url(network), ping_interval=None, close_timeout=0) as socket:
            caller = Caller(socket)
            await caller.start(LONG, format="opus_packets", max_lead_s=0.5)
            for _ in range(events):
                await caller.hear("audio")
            network.reset()

    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    for round_ in range(30):
        async with network_before(server.port) as network:
            await one(network, round_ % 5)
    await server.metric_becomes("kingfisher_sessions", 0)
    await server.metric_becomes("kingfisher_slots_used", 0)
    log = "".join(server.log)
    assert "Traceback" not in log
    assert "never retrieved" not in log
