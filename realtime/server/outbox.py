"""Messages on their way to one client: bounded, and watched by the clock.

TCP cannot tell whether somebody listens: minutes of Opus fit into kernel buffers. So a session is never given more
than its lead anyway, and what still piles up here, or a send that does not come through, means a client that does
not read.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

__all__ = ["ClientTooSlow", "Outbox"]


class ClientTooSlow(Exception):
    """The client does not take what it is sent."""


class Outbox:
    def __init__(self, max_bytes: int, stall_s: float) -> None:
        self._max_bytes, self._stall_s = max_bytes, stall_s
        self._frames: deque[bytes | str] = deque()
        self._bytes = 0
        self._sending_since_s: float | None = None
        self._close: tuple[int, str] | None = None
        self._filled = asyncio.Event()

    def put(self, frames: list[bytes | str]) -> None:
        """Raises ClientTooSlow when the bound is passed."""
        self._frames.extend(frames)
        self._bytes += sum(map(len, frames))
        self._filled.set()
        if self._bytes > self._max_bytes:
            raise ClientTooSlow(f"{self._bytes} bytes wait to be sent")

    def close(self, code: int, reason: str) -> None:
        """Close the socket once everything put before is sent."""
        if self._close is None:
            self._close = (code, reason)
        self._filled.set()

    def check(self, now: float) -> None:
        """To be called about once a second: a timer for each send would cost a tenth of what the event loop does for a
        message. Raises ClientTooSlow when a send has not come through for too long."""
        if self._sending_since_s is not None and now - self._sending_since_s > self._stall_s:
            raise ClientTooSlow(f"a send did not come through for {self._stall_s:g} s")

    async def run(self, send: Callable[[bytes | str], Awaitable[None]]) -> tuple[int, str]:
        """Send until `close`; returns the close code and reason. Raises what `send` raises."""
        while True:
            while self._frames:
                frame = self._frames.popleft()
                self._sending_since_s = time.monotonic()
                await send(frame)
                self._bytes -= len(frame)
            self._sending_since_s = None
            if self._close is not None:
                return self._close
            self._filled.clear()
            await self._filled.wait()
