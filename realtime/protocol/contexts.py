"""What the dialects with JSON messages have in common: contexts by name on one socket, from the first to the last.

A dialect gives `_take` (a message came), `_say_reply` (a context has something to say) and `_error` (how a fault reads
on its wire). Law: after `Shut` nothing is sent and nothing is asked of the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from realtime.errors import ConnectionFault, Malformed, StreamFault, TooBig
from realtime.protocol.context import Context
from realtime.protocol.dialect import ContextKey, DialectEvent, For, Leave, Shut
from realtime.protocol.replies import Finish, Reply

__all__ = ["NORMAL", "ContextsDialect", "SocketLimits", "decoded"]

NORMAL, SERVER_GOES_DOWN = 1000, 1012

_Message = TypeVar("_Message")
_encoder = msgspec.json.Encoder()


class SocketLimits(msgspec.Struct, frozen=True):
    max_message_bytes: int
    idle_s: float
    """A socket on which nothing is spoken is closed after so long without a message."""


class ContextsDialect(ABC):
    def __init__(self, new_context: Callable[[], Context], limits: SocketLimits, now: float) -> None:
        self._new_context, self._limits = new_context, limits
        self._contexts: dict[ContextKey, Context] = {}
        self._frames: list[bytes | str] = []
        self._events: list[DialectEvent] = []
        self._is_shut = self._is_draining = False
        self._active_s = now
        """When the client or the speech was last heard."""

    # ---- for a dialect to give ---------------------------------------------------------------------

    @abstractmethod
    def _take(self, frame: bytes | str, now: float) -> None:
        """Raises ConnectionFault, which ends the socket."""

    @abstractmethod
    def _say_reply(self, key: ContextKey, reply: Reply, now: float) -> None: ...

    @abstractmethod
    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        """The message for a fault of the socket itself."""

    # ---- outputs -----------------------------------------------------------------------------------

    def frames(self, now: float) -> list[bytes | str]:
        self._collect(now)
        if self._is_draining and not self._is_speaking:
            self._shut(SERVER_GOES_DOWN, "the server is shutting down")
        frames, self._frames = self._frames, []
        return frames

    def events(self) -> list[DialectEvent]:
        if not self._is_shut:
            for key, context in self._contexts.items():
                self._events += [For(key, event) for event in context.events()]
        events, self._events = self._events, []
        return events

    def context(self, key: ContextKey) -> Context | None:
        return None if self._is_shut else self._contexts.get(key)

    # ---- inputs ------------------------------------------------------------------------------------

    def receive(self, frame: bytes | str, now: float) -> None:
        if self._is_shut:
            return
        self._active_s = now
        try:
            if len(frame) > self._limits.max_message_bytes:
                limit = self._limits.max_message_bytes
                raise TooBig(f"the message has {len(frame)} bytes; at most {limit} are read")
            self._take(frame, now)
        except ConnectionFault as fault:
            self._abort(fault, now)

    def tick(self, now: float) -> None:
        if self._is_shut:
            return
        for context in self._contexts.values():
            context.tick()
        if not self._is_speaking and now - self._active_s >= self._limits.idle_s:
            self._shut(NORMAL, f"idle for {self._limits.idle_s:g} s")

    def drain(self, now: float) -> None:
        self._is_draining = True

    def give_up(self, fault: StreamFault, close_code: int, now: float) -> None:
        if self._is_shut:
            return
        self._collect(now)
        if not self._is_speaking:
            self._send(self._error(fault.code, str(fault), close_code))
        for context in self._contexts.values():
            context.fail(fault, now)
        self._collect(now)
        self._shut(close_code, str(fault))

    # ---- contexts ----------------------------------------------------------------------------------

    @property
    def _is_speaking(self) -> bool:
        """Whether a stream is under way in any context."""
        return any(context.is_open for context in self._contexts.values())

    def _add(self, key: ContextKey) -> Context:
        context = self._contexts[key] = self._new_context()
        return context

    def _drop(self, key: ContextKey) -> None:
        """The context is over, and its seat free; what it was still speaking is dropped without a word."""
        context = self._contexts.pop(key)
        context.abandon()
        self._events += [For(key, event) for event in context.events()]
        self._events.append(Leave(key))

    # ---- messages ----------------------------------------------------------------------------------

    def _send(self, message: Any) -> None:
        """A struct or map as JSON text, or bytes as they are."""
        if not self._is_shut:
            self._frames.append(message if isinstance(message, bytes) else _encoder.encode(message).decode())

    def _collect(self, now: float) -> None:
        """What the contexts said since, in the protocol's words."""
        for key, context in list(self._contexts.items()):
            for reply in context.replies():
                self._active_s = now
                self._say_reply(key, reply, now)
                if isinstance(reply, Finish):
                    self._finished(key)
                if self._contexts.get(key) is not context:
                    break  # it went with its stream; that its voice is warm now is of interest to nobody

    def _finished(self, key: ContextKey) -> None:
        """A stream came to its end; a context that speaks but one stream goes with it."""
        if key in self._contexts:
            self._drop(key)

    # ---- the end -----------------------------------------------------------------------------------

    def _abort(self, fault: ConnectionFault, now: float) -> None:
        """The client broke the protocol: say so, drop what is under way, close."""
        self._collect(now)
        self._send(self._error(fault.code, str(fault), fault.close_code))
        self._shut(fault.close_code, str(fault))

    def _shut(self, code: int, reason: str) -> None:
        if self._is_shut:
            return
        for key in list(self._contexts):
            self._drop(key)
        self._is_shut = True
        self._events.append(Shut(code, reason))


def decoded(frame: bytes | str, kind: msgspec.json.Decoder[_Message]) -> _Message:
    """Raises Malformed, whatever the frame is."""
    try:
        return kind.decode(frame)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Malformed(f"not a message of this protocol: {error}") from None
