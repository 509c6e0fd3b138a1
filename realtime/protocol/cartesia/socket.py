"""`/tts/websocket`: many contexts on one socket, each opened by its first message.

`continue: true` says that more text follows; the message without it ends the context. `cancel` drops a context without
an answer. Text is held back for at most the context's `max_buffer_delay_ms`. A bad message fails its own context and
leaves the socket open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from realtime.errors import BadOrder, Malformed, StreamFault, TooManySessions
from realtime.protocol import replies
from realtime.protocol.cartesia.messages import GenerationRequest
from realtime.protocol.cartesia.replies import (
    chunk_message,
    done_message,
    error_message,
    flush_done_message,
    timestamps_message,
)
from realtime.protocol.cartesia.request import buffer_delay_ms, socket_request
from realtime.protocol.context import Context
from realtime.protocol.contexts import ContextsDialect, SocketLimits, decoded
from realtime.protocol.dialect import ContextKey

__all__ = ["MAX_CONTEXTS", "CartesiaSocket"]

MAX_CONTEXTS = 32
FORGOTTEN_S = 120.0
"""A context that was to be continued and was not heard of, from either side, for so long is ended."""

_decoder = msgspec.json.Decoder(GenerationRequest)


@dataclass(slots=True)
class _Books:
    """Of one context."""

    has_timestamps: bool
    buffer_delay_ms: float
    active_s: float
    held_since_s: float | None = None
    """When text came that no flush followed yet."""
    asked_flushes: list[int] = field(default_factory=list)
    """The context's own numbers of flushes that the client asked for; the others only bound the delay."""
    flushes: int = 0
    flush_id: int = 1
    """Of the audio that comes now: one more than the flushes that were answered."""


class CartesiaSocket(ContextsDialect):
    def __init__(self, new_context: Callable[[], Context], limits: SocketLimits, request_id: str, now: float) -> None:
        super().__init__(new_context, limits, now)
        self._request_id = request_id
        self._books: dict[ContextKey, _Books] = {}
        self._unnamed = 0

    def _take(self, frame: bytes | str, now: float) -> None:
        try:
            message = decoded(frame, _decoder)
        except Malformed as fault:
            self._send(self._error(fault.code, str(fault), None))
            return
        key = message.context_id or self._next_name()
        if message.cancel:
            if key in self._contexts:
                self._collect(now)
            if key in self._contexts:
                self._drop(key)
            return
        try:
            self._generate(key, message, now)
        except (StreamFault, BadOrder, TooManySessions) as fault:
            self._fail(key, fault.code, str(fault))

    def _generate(self, key: ContextKey, message: GenerationRequest, now: float) -> None:
        """Raises StreamFault, BadOrder and TooManySessions, which fail the message."""
        context = self._contexts.get(key) or self._open(key, message, now)
        if not context.takes_text:
            raise BadOrder(f"context {key[:80]!r} was ended by a message without continue; use a new one")
        books = self._books[key]
        books.active_s = now
        if message.transcript:
            context.text(message.transcript, now)
        if message.transcript.strip() and books.held_since_s is None:
            books.held_since_s = now
        if not context.takes_text:
            return  # the text was too much
        if message.flush:
            books.asked_flushes.append(books.flushes + 1)
            self._flush(context, books, now)
        elif message.continue_ and books.buffer_delay_ms == 0 and books.held_since_s is not None:
            self._flush(context, books, now)
        if not message.continue_ and context.takes_text:
            context.stop()

    def _open(self, key: ContextKey, message: GenerationRequest, now: float) -> Context:
        if len(self._contexts) >= MAX_CONTEXTS:
            raise TooManySessions(f"{MAX_CONTEXTS} contexts are active on this socket, which is the limit")
        request = socket_request(message)
        delay_ms = buffer_delay_ms(message.max_buffer_delay_ms)
        context = self._add(key)
        self._books[key] = _Books(bool(message.add_timestamps), delay_ms, now)
        context.start(request, now)
        return context

    @staticmethod
    def _flush(context: Context, books: _Books, now: float) -> None:
        books.flushes += 1
        books.held_since_s = None
        context.flush(now)

    def tick(self, now: float) -> None:
        for key, context in self._contexts.items():
            books = self._books[key]
            if not context.takes_text:
                continue
            if now - books.active_s >= FORGOTTEN_S:
                context.stop()
            elif books.held_since_s is not None and (now - books.held_since_s) * 1000 >= books.buffer_delay_ms:
                self._flush(context, books, now)
        super().tick(now)

    # ---- what the contexts say ---------------------------------------------------------------------

    def _say_reply(self, key: ContextKey, reply: replies.Reply, now: float) -> None:
        books = self._books[key]
        books.active_s = now
        match reply:
            case replies.Audio():
                if reply.has_sound:
                    self._send_for(key, chunk_message(reply) | {"flush_id": books.flush_id})
                if books.has_timestamps and reply.timings:
                    self._send_for(key, timestamps_message(reply.timings) | {"flush_id": books.flush_id})
            case replies.Flushed(seq=seq):
                if seq in books.asked_flushes:
                    books.asked_flushes.remove(seq)
                    self._send_for(key, flush_done_message(books.flush_id))
                    books.flush_id += 1
            case replies.Finish(code=None):
                self._send_for(key, done_message())
            case replies.Finish(code=str() as code, message=message):
                self._send_for(key, error_message(code, message, self._request_id))

    def _send_for(self, key: ContextKey, message: dict[str, Any]) -> None:
        self._send(message | {"context_id": key})

    def _fail(self, key: ContextKey, code: str, message: str) -> None:
        """A message that cannot be done. Clients take an error for the end of its context, so it is."""
        self._send_for(key, error_message(code, message, self._request_id))
        if key in self._contexts:
            self._drop(key)

    def _drop(self, key: ContextKey) -> None:
        super()._drop(key)
        del self._books[key]

    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        return error_message(code, message, self._request_id)

    def _next_name(self) -> ContextKey:
        self._unnamed += 1
        return f"{self._request_id}-{self._unnamed}"
