"""One stream of speech for a request that is no socket: text in whole, replies out as they come."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from realtime.errors import EngineFault, Internal, StreamFault
from realtime.protocol.replies import Audio, Finish, Reply
from realtime.protocol.request import StreamRequest
from realtime.server.guest import Guest

__all__ = ["ENOUGH_UNREAD_BYTES", "speak"]

log = logging.getLogger(__name__)

ENOUGH_UNREAD_BYTES = 1 << 20
"""Audio that waits for the client: beyond it no further text is spoken until he takes some. Five seconds of it at the
least, so that speech is under way again before he runs dry. What was handed to the engine before still comes: some
units, see realtime.protocol.utterance."""


@asynccontextmanager
async def speak(guest: Guest, request: StreamRequest) -> AsyncIterator[AsyncIterator[Reply]]:
    """The replies to `request.text`, up to and with the Finish of a stream that succeeded. The asker was admitted.

    Entering raises TooManySessions. The iterator raises a StreamFault where the stream fails, at once or half way.
    Leaving the block, for whatever reason, ends the speech and frees its slot.
    """
    speaking = _Speaking(guest)
    with guest.hub.membership(speaking):
        try:
            speaking.start(request)
            yield speaking.replies()
        finally:
            speaking.leave()


class _Speaking:
    """A member of the hub: one context, one seat."""

    def __init__(self, guest: Guest) -> None:
        self._context = guest.new_context()
        self._seat = guest.hub.take_seat(self._context, self._guarded)
        self._unread: deque[Reply] = deque()
        self._unread_bytes = 0
        self._came = asyncio.Event()

    def start(self, request: StreamRequest) -> None:
        def begin() -> None:
            self._context.start(request, time.monotonic())
            if self._context.takes_text:
                self._context.stop()

        self._guarded(begin)

    def leave(self) -> None:
        self._seat.leave()

    async def replies(self) -> AsyncIterator[Reply]:
        while True:
            while self._unread:
                reply = self._unread.popleft()
                self._unread_bytes -= _size(reply)
                if isinstance(reply, Finish) and reply.code is not None:
                    raise EngineFault(reply.code, reply.message)
                yield reply
                if isinstance(reply, Finish):
                    return
                self._guarded(self._look_at_client)
            self._came.clear()
            await self._came.wait()

    # ---- as a member ---------------------------------------------------------------------------------

    @property
    def has_seat(self) -> bool:
        return True

    def tick(self, now: float) -> None:
        self._guarded(self._context.tick)

    def drain(self) -> None:
        """A request under way is answered; no other can follow it."""

    def give_up(self, fault: StreamFault, close_code: int) -> None:
        self._context.fail(fault, time.monotonic())
        self._pump()

    # ---- inside --------------------------------------------------------------------------------------

    def _guarded(self, step: Callable[[], object]) -> None:
        """A fault of ours ends this request and no other, and is never silent."""
        try:
            step()
            self._pump()
        except Exception:
            log.exception("request at seat %s failed", self._seat.session)
            self.give_up(Internal("a fault of the server"), 0)

    def _look_at_client(self) -> None:
        self._context.hold(self._unread_bytes > ENOUGH_UNREAD_BYTES)

    def _pump(self) -> None:
        while True:
            replies, events = self._context.replies(), self._context.events()
            if not replies and not events:
                return
            self._unread += replies
            self._unread_bytes += sum(map(_size, replies))
            self._came.set()
            for event in events:
                self._seat.carry_out(event)
            self._look_at_client()


def _size(reply: Reply) -> int:
    return len(reply.chunk.data) + sum(map(len, reply.chunk.packets)) if isinstance(reply, Audio) else 0
