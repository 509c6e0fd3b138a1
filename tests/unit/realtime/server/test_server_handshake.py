"""Which deadlines a connection has, with a loop that notes its timers and a transport made by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from realtime.server.handshake import BODY_S, TimedHttp

HANDSHAKE_S = 7.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
UPGRADE = (
    GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Loop:
    """The running loop, whose timers are noted and never fire."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.timers: list[tuple[float, asyncio.TimerHandle]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
        handle = self._loop.call_later(1e6, callback, *args)
        self.timers.append((delay, handle))
        return handle

    @property
    def pending_s(self) -> list[float]:
        return [delay for delay, handle in self.timers if not handle.cancelled()]


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self._protocol: Any = None

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def answers_nothing(scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


@pytest.mark.parametrize(
    ("sent", "waits_s"),
    [
        ([], [HANDSHAKE_S]),
        ([b"GET / HT"], [HANDSHAKE_S]),
        ([GET + b"Content-Length: 9\r\n\r\n"], [BODY_S]),
        ([GET + b"Content-Length: 9\r\n\r\n", b"some"], [BODY_S]),
        ([GET + b"\r\n"], []),
        ([UPGRADE], []),
        ([UPGRADE[:50], UPGRADE[50:]], []),
    ],
    ids=["nothing", "half a head", "no body yet", "half a body", "a request", "a socket", "a socket in two pieces"],
)
async def test_who_is_waited_for_and_how_long(sent: list[bytes], waits_s: list[float]) -> None:
    """A WebSocket once kept the deadline of a body, and was cut after two minutes whatever was being said."""
    loop, transport = Loop(), Transport()
    config = uvicorn.Config(answers_nothing, ws="websockets-sansio", ws_ping_interval=None, log_config=None)
    config.load()
    http = TimedHttp(
        handshake_s=HANDSHAKE_S,
        silence_s=60.0,
        max_unsent_bytes=1,
        config=config,
        server_state=(state := ServerState()),
        app_state={},
        _loop=loop,
    )
    transport.set_protocol(http)
    http.connection_made(transport)
    for piece in sent:
        http.data_received(piece)
    assert loop.pending_s == waits_s
    transport.get_protocol().connection_lost(None)
    assert loop.pending_s == []
    await asyncio.gather(*state.tasks)
