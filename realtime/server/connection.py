"""One WebSocket: the shell around a dialect and the seats of its contexts.

A reader and a sender task; deliveries come in through the seats on the same loop. Every input is followed by `_pump`:
frames go to the outbox, events to the seats.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.websockets import WebSocket, WebSocketDisconnect

from realtime import errors
from realtime.protocol.dialect import ContextKey, Dialect, For, Leave, Shut
from realtime.server.outbox import ClientTooSlow, Outbox
from realtime.server.seat import Seat

if TYPE_CHECKING:
    from realtime.server.hub import Hub

__all__ = ["Connection"]

log = logging.getLogger(__name__)

INTERNAL, TOO_SLOW = 1011, 4408

GOODBYE_S = 5.0
"""How long a close frame may wait behind data that the peer does not take."""

MAX_REASON_BYTES = 123
"""A WebSocket control frame holds no more."""


class Connection:
    def __init__(self, socket: WebSocket, hub: Hub, name: str, dialect: Dialect) -> None:
        """`name` is for the log."""
        self._socket, self._hub, self._name, self._dialect = socket, hub, name, dialect
        self._outbox = Outbox(hub.config.max_out_bytes, hub.config.stall_s)
        self._seats: dict[ContextKey, Seat] = {}
        self._end: asyncio.Future[tuple[int, str] | None] = asyncio.get_running_loop().create_future()
        """Close code and reason, or None when the peer is gone already."""

    async def run(self) -> None:
        """From accepted socket to its end; never raises for what a peer does."""
        reader = asyncio.create_task(self._read(), name=f"read-{self._name}")
        sender = asyncio.create_task(self._send(), name=f"send-{self._name}")
        try:
            self._guarded(lambda: None)  # what the dialect wants at connect
            goodbye = await self._end
        finally:
            # The engine learns of it first: whatever follows may take a while.
            for seat in self._seats.values():
                seat.leave()
            for task in (reader, sender):
                task.cancel()
            await asyncio.gather(reader, sender, return_exceptions=True)
        if goodbye is not None:
            await self._say_goodbye(*goodbye)

    async def _read(self) -> None:
        """Feed the dialect until the peer is gone."""
        try:
            while (message := await self._socket.receive())["type"] == "websocket.receive":
                frame = message.get("bytes")
                frame = message.get("text", "") if frame is None else frame
                self._guarded(partial(self._receive, frame))
                # Messages that are there already are received without a wait: a flood would hold the loop.
                await asyncio.sleep(0)
        except (WebSocketDisconnect, RuntimeError):
            log.debug("socket %s: the peer is gone", self._name)
        finally:
            self._end_with(None)

    async def _send(self) -> None:
        """Send what is in the outbox until it is closed. Every failed send means one thing: the peer is gone."""
        try:
            self._end_with(await self._outbox.run(self._send_frame))
        except (WebSocketDisconnect, RuntimeError):
            log.debug("socket %s: the peer was gone before its messages", self._name)
        finally:
            self._end_with(None)

    async def _send_frame(self, frame: bytes | str) -> None:
        if isinstance(frame, str):
            await self._socket.send_text(frame)
        else:
            await self._socket.send_bytes(frame)

    def _drop(self, error: ClientTooSlow) -> None:
        if not self._end.done():
            self._hub.metrics.dropped.inc()
            log.info("socket %s: dropped, %s", self._name, error)
        self._end_with((TOO_SLOW, str(error)))

    def _end_with(self, goodbye: tuple[int, str] | None) -> None:
        if not self._end.done():
            self._end.set_result(goodbye)

    async def _say_goodbye(self, code: int, reason: str) -> None:
        reason = reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self._socket.close(code, reason)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            log.debug("socket %s: the peer was gone before its close", self._name)

    # ---- inputs --------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        try:
            self._outbox.check(now)
        except ClientTooSlow as error:
            self._drop(error)
        self._guarded(partial(self._dialect.tick, now))

    def drain(self) -> None:
        self._guarded(partial(self._dialect.drain, time.monotonic()))

    def give_up(self, fault: errors.StreamFault, close_code: int) -> None:
        """The server cannot go on with this socket."""
        self._dialect.give_up(fault, close_code, time.monotonic())
        self._pump()

    def _guarded(self, step: Callable[[], object]) -> None:
        """A fault of ours ends this socket and no other, and is never silent."""
        try:
            step()
            self._pump()
        except Exception:
            log.exception("socket %s failed", self._name)
            self.give_up(errors.Internal("a fault of the server"), INTERNAL)

    def _receive(self, frame: bytes | str) -> None:
        self._dialect.receive(frame, time.monotonic())

    # ---- dialect -> outbox and seats -------------------------------------------------------------------

    def _pump(self) -> None:
        """Until nothing comes out any more: what a seat cannot do makes new messages and events."""
        now = time.monotonic()
        while True:
            frames, events = self._dialect.frames(now), self._dialect.events()
            if not frames and not events:
                return
            try:
                self._outbox.put(frames)
            except ClientTooSlow as error:
                self._drop(error)
            for event in events:
                match event:
                    case For(key=key, event=inner):
                        if (seat := self._seat(key)) is not None:
                            seat.carry_out(inner)
                    case Leave(key=key):
                        if (seat := self._seats.pop(key, None)) is not None:
                            seat.leave()
                    case Shut(code=code, reason=reason):
                        self._outbox.close(code, reason)

    def _seat(self, key: ContextKey) -> Seat | None:
        """The context's seat, taken at its first event; None if the dialect has let go of the context meanwhile."""
        if (seat := self._seats.get(key)) is not None or (context := self._dialect.context(key)) is None:
            return seat
        try:
            seat = self._seats[key] = self._hub.take_seat(context, self._guarded)
        except errors.TooManySessions as refusal:
            context.fail(errors.Overloaded(str(refusal)), time.monotonic())
        return seat

    @property
    def has_seat(self) -> bool:
        return bool(self._seats)
