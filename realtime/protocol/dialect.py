"""What the server's shell expects of a WebSocket protocol: a Sans-IO translator between its messages and contexts.

After each input the shell pulls `frames` and then `events`, until there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from realtime.errors import StreamFault
from realtime.protocol.context import Context
from realtime.protocol.events import SessionEvent

__all__ = ["ContextKey", "Dialect", "DialectEvent", "For", "Leave", "Shut"]

ContextKey = str
"""A context's name on its socket; dialects with one context use the empty string."""


@dataclass(frozen=True, slots=True)
class For:
    """An event of one context. The first of a context gives it a seat at the engine."""

    key: ContextKey
    event: SessionEvent


@dataclass(frozen=True, slots=True)
class Leave:
    """The context is over: its seat is given back."""

    key: ContextKey


@dataclass(frozen=True, slots=True)
class Shut:
    """Close the socket after the queued frames."""

    code: int
    reason: str


DialectEvent = For | Leave | Shut


class Dialect(Protocol):
    """Inputs raise nothing for what a client or the engine may do. Time is seconds of any origin."""

    def receive(self, frame: bytes | str, now: float) -> None:
        """One WebSocket message."""

    def tick(self, now: float) -> None:
        """Called about once a second."""

    def drain(self, now: float) -> None:
        """The server is going down: close now if nothing is spoken, else after it."""

    def give_up(self, fault: StreamFault, close_code: int, now: float) -> None:
        """The server cannot go on with this socket: what is under way fails, the socket closes."""

    def context(self, key: ContextKey) -> Context | None:
        """The context that the engine's results are for; None: it is over."""

    def frames(self, now: float) -> list[bytes | str]:
        """Messages to send, in order."""

    def events(self) -> list[DialectEvent]:
        """What the shell must do, in order."""
