"""Connections that have not said what they want: they get little time, and there are never many of them.

uvicorn waits without end for the first request of a connection, and for a request that comes byte by byte.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable, MutableMapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from realtime.server.frames import SmallReads

__all__ = ["TimedHttp", "Waiting", "abort", "make_room"]

BODY_S = 120.0
"""For a request's body: a clip of 16 MiB comes through 1.2 Mbit/s in that time."""

MAX_UNFINISHED = 512
"""Connections without a whole request; one more ends the oldest, as an honest one needs milliseconds."""

_BEFORE_REQUEST, _IN_BODY = h11.IDLE, h11.SEND_BODY

_ABORT = "kingfisher.abort"


def abort(scope: MutableMapping[str, Any]) -> None:
    """End the connection of this request at once, with what lies in its buffers: an orderly close would wait for the
    client to take it."""
    scope["state"][_ABORT]()


class Waiting(ABC):
    """A connection that the server waits for."""

    waits_until_s: float | None = None
    """By the loop's clock; None: it has said what it wants."""

    @abstractmethod
    def give_up(self) -> None:
        """End it at once."""


def make_room(connections: Iterable[object]) -> None:
    """End the oldest of those that are waited for, if they have become too many."""
    waiting = [(c.waits_until_s, c) for c in connections if isinstance(c, Waiting) and c.waits_until_s is not None]
    if len(waiting) > MAX_UNFINISHED:
        _, oldest = min(waiting, key=lambda entry: entry[0])
        oldest.waits_until_s = None  # its end takes a turn of the loop, and more may come meanwhile
        oldest.give_up()


class TimedHttp(H11Protocol, Waiting):
    def __init__(self, *, handshake_s: float, silence_s: float, max_unsent_bytes: int, **of_uvicorn: object) -> None:
        """`handshake_s`: from connecting, or from a request's first byte, to the end of its headers.
        `silence_s`: how long the far side of a WebSocket may take nothing before the kernel gives it up.
        `max_unsent_bytes`: see SmallReads."""
        super().__init__(**of_uvicorn)  # type: ignore[arg-type]
        self._max_unsent_bytes = max_unsent_bytes
        self._handshake_s, self._silence_s = handshake_s, silence_s
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_for: object = None
        self._is_socket = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, _ABORT: transport.abort}
        self._watch()
        make_room(self.connections)

    def give_up(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._unwatch()
        self._is_socket = True  # h11 still waits for the end of a request that is over
        super().handle_websocket_upgrade(event)
        self._give_up_the_silent()
        protocol = self.transport.get_protocol()
        if isinstance(protocol, WebSocketsSansIOProtocol) and not self.transport.is_closing():
            # What is read, and into what, changes with the protocol only where reading begins anew.
            self.transport.pause_reading()
            self.transport.set_protocol(SmallReads(protocol, self.transport, self._max_unsent_bytes))
            self.transport.resume_reading()

    def _give_up_the_silent(self) -> None:
        """Else the data of a peer that is gone would stay in memory for minutes. Not for a body over HTTP: the kernel
        counts a steady reader whose window stays full as silent, and realtime.server.spoken looks after those."""
        peer = self.transport.get_extra_info("socket")
        if peer is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(self._silence_s * 1000))

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """One deadline for the headers and one for the body; more bytes do not put it off. A WebSocket has none."""
        if self._is_socket:
            return
        state = self.conn.their_state
        if state is self._waits_for and self._deadline is not None:
            return
        self._unwatch()
        if state in (_BEFORE_REQUEST, _IN_BODY) and not self.transport.is_closing():
            seconds = self._handshake_s if state is _BEFORE_REQUEST else BODY_S
            self._waits_for, self._deadline = state, self.loop.call_later(seconds, self.give_up)
            self.waits_until_s = self._deadline.when()

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._waits_for = self.waits_until_s = None
