"""The hub's watch over the engine and over faults of our own. All else of it meets real sockets in tests/e2e."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.websockets import WebSocket

from engine.api import BadReference as UnusableClip
from engine.null import NullEngine
from realtime.config import ServerConfig
from realtime.errors import BadReference, Overloaded
from realtime.protocol.events import Reference
from realtime.scheduler import job
from realtime.server import cloning
from realtime.server.hub import GRACE_S, HUNG_S, Hub
from realtime.server.routes.fish import live_dialect

DEADLINE_S = 15.0


class Wire:
    """The two ASGI channels of one socket, with the far ends in hand."""

    def __init__(self) -> None:
        self._to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_server: asyncio.Queue[Any] = asyncio.Queue()
        self._to_server.put_nowait({"type": "websocket.connect"})
        scope = {"type": "websocket", "path": "/", "headers": [], "query_string": b"", "subprotocols": []}
        self.socket = WebSocket(scope, self._to_server.get, self._from_server.put)

    def say(self, event: str, **fields: Any) -> None:
        frame = msgspec.msgpack.encode({"event": event, **fields})
        self._to_server.put_nowait({"type": "websocket.receive", "bytes": frame})

    @property
    def messages_heard(self) -> int:
        """Those that no `hear` has taken yet."""
        return self._from_server.qsize()

    def hang_up(self) -> None:
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def hear(self, event: str) -> dict[str, Any]:
        """The next message of this kind, or ASGI event that is no message."""
        async with asyncio.timeout(5):
            while True:
                said = await self._from_server.get()
                if said["type"] == "websocket.send":
                    said = msgspec.msgpack.decode(said["bytes"])
                if event in (said.get("event"), said.get("type")):
                    return said  # type: ignore[no-any-return]


async def serve(hub: Hub, wire: Wire) -> None:
    dialect = live_dialect(hub.guest(None), None)
    await hub.serve(wire.socket, dialect.request_id, dialect)


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
async def hub(failures: list[str], tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(ServerConfig(model="null", voices_dir=str(tmp_path)), on_failure=lambda: failures.append("failed"))
    await hub.open(NullEngine(slots=2))
    yield hub
    hub.close()


async def test_a_hub_is_ready_once_it_has_an_engine(hub: Hub) -> None:
    assert hub.is_ready
    assert not hub.is_failed
    assert not Hub(ServerConfig(model="null"), on_failure=lambda: None).is_ready


async def test_an_engine_that_does_not_come_round_is_given_up_once(hub: Hub, failures: list[str]) -> None:
    wire = Wire()
    serving = asyncio.create_task(serve(hub, wire))
    await wire.hear("ready")
    hub.tick(time.monotonic())
    assert failures == []
    for silent_s in (HUNG_S + 1, HUNG_S + 1 + GRACE_S, HUNG_S + 2 + GRACE_S):
        hub.tick(time.monotonic() + silent_s)
    assert failures == ["failed"]
    assert hub.is_failed
    assert not hub.is_ready
    assert (await wire.hear("error"))["code"] == "internal"
    assert (await wire.hear("websocket.close"))["code"] == 1011
    await serving


async def test_a_fault_of_ours_ends_one_session_and_is_logged(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    unlucky, lucky = Wire(), Wire()
    serving = [asyncio.create_task(serve(hub, wire)) for wire in (unlucky, lucky)]
    for wire in (unlucky, lucky):
        wire.say("start", request={"format": "pcm"})
        wire.say("ping")
        await wire.hear("pong")
    impossible = job.UnitDone(job.SessionId(1), job.UtteranceId(1), 99, is_cut=False, drained=True)
    hub._dispatch([impossible, job.MarkReached(job.SessionId(2), job.UtteranceId(1), 1)])
    assert (await lucky.hear("flushed"))["seq"] == 1
    finish = await unlucky.hear("finish")
    assert (finish["reason"], finish["code"]) == ("error", "internal")
    assert (await unlucky.hear("websocket.close"))["code"] == 1011
    lucky.hang_up()
    await asyncio.gather(*serving)
    assert "IndexError" in caplog.text


async def test_a_clip_is_encoded_once(hub: Hub) -> None:
    wire = Wire()
    serving = asyncio.create_task(serve(hub, wire))
    clip = {"references": [{"audio": b"sound of a voice", "text": "words"}], "format": "pcm"}
    voices = []
    for _ in range(2):
        wire.say("start", request=clip)
        wire.say("text", text="Spoken with the clip.")
        wire.say("stop")
        assert (await wire.hear("finish"))["reason"] == "stop"
        voices.append(hub.runtime.engine._state[0].request.voice)  # type: ignore[attr-defined]
    assert voices[0] is voices[1]
    assert voices[0].name.startswith("clip-")
    wire.hang_up()
    await serving


async def test_sessions_that_bring_the_same_clip_at_once_have_it_encoded_once(hub: Hub) -> None:
    clip = Reference((b"sound of a voice",), "words")
    first, second = await asyncio.gather(hub.cloning.voice(clip), hub.cloning.voice(clip))
    assert first is second


async def test_the_wait_for_others_clips_has_a_bound(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloning, "ENCODE_S", 0.05)
    may_end = threading.Event()
    monkeypatch.setattr(type(hub.runtime.engine), "encode_reference", lambda *_: may_end.wait(DEADLINE_S))
    wire = Wire()
    serving = asyncio.create_task(serve(hub, wire))
    wire.say("start", request={"references": [{"audio": b"sound of a voice", "text": "words"}], "format": "pcm"})
    assert (await wire.hear("finish"))["code"] == Overloaded.code
    may_end.set()
    wire.hang_up()
    await serving


async def test_one_client_that_floods_does_not_keep_another_waiting(hub: Hub) -> None:
    flood, other = Wire(), Wire()
    serving = [asyncio.create_task(serve(hub, wire)) for wire in (flood, other)]
    for wire in (flood, other):
        await wire.hear("ready")
    for _ in range(1_000):
        flood.say("ping")
    other.say("ping")
    await other.hear("pong")
    assert flood.messages_heard < 100
    for wire in (flood, other):
        wire.hang_up()
    await asyncio.gather(*serving)


async def test_a_process_that_was_stopped_itself_gives_its_engine_time_to_come_round(
    hub: Hub, failures: list[str]
) -> None:
    """After SIGSTOP or a frozen container the engine was silent for long, through no fault of its own."""
    now = time.monotonic() + 10 * HUNG_S
    for late_s in (0.0, 0.0, 1.0):  # the ticks that were missed come in quick succession
        hub.tick(now + late_s)
    assert failures == []


async def test_a_clip_that_cannot_be_used_is_the_clients_fault(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UnusableClip("the clip is no sound")

    monkeypatch.setattr(type(hub.runtime.engine), "encode_reference", refuse)
    with pytest.raises(BadReference, match="no sound"):
        await hub.cloning.voice(Reference((b"text",), ""))
    with pytest.raises(BadReference, match="no sound"):
        await hub.cloning.voice(Reference((b"text", b"more"), ""))
