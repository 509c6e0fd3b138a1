"""`multi-stream-input`: many contexts on one socket, each opened by its first text and closed by its own message.

A close lets the rest be spoken; a second one, or new text under the same name, drops it (barge-in). Whatever names a
context that is not there, except text, is let pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from realtime.errors import StreamFault, TooManySessions
from realtime.protocol import replies
from realtime.protocol.context import Context
from realtime.protocol.contexts import NORMAL, ContextsDialect, SocketLimits, decoded
from realtime.protocol.dialect import ContextKey
from realtime.protocol.elevenlabs.alignment import Alignment
from realtime.protocol.elevenlabs.messages import ClientMessage
from realtime.protocol.elevenlabs.replies import audio_message, error_message, final_message
from realtime.protocol.elevenlabs.request import SocketSettings, request_of

__all__ = ["MAX_CONTEXTS", "MultiStream"]

MAX_CONTEXTS = 32
"""The vendor's 5 are too few for clients that interrupt often."""

_decoder = msgspec.json.Decoder(ClientMessage)


class MultiStream(ContextsDialect):
    def __init__(
        self, new_context: Callable[[], Context], settings: SocketSettings, limits: SocketLimits, now: float
    ) -> None:
        super().__init__(new_context, limits, now)
        self._settings = settings
        self._alignments: dict[ContextKey, Alignment] = {}
        self._active: dict[ContextKey, float] = {}
        """When each context was last heard of, from either side."""
        self._is_closing = False

    def _take(self, frame: bytes | str, now: float) -> None:
        message = decoded(frame, _decoder)
        key = message.context_id or message.contextId or ""
        if message.close_socket:
            self._close_all()
        elif message.close_context:
            self._close_context(key, now)
        elif message.text:
            self._text(key, message, message.text, now)
        elif (context := self._contexts.get(key)) is not None:
            self._active[key] = now
            if message.flush and context.takes_text:
                context.flush(now)

    def _text(self, key: ContextKey, message: ClientMessage, text: str, now: float) -> None:
        context = self._contexts.get(key)
        if context is not None and not context.takes_text:
            self._cancel(key, now)
            context = None
        if context is None and (context := self._open(key, message, now)) is None:
            return
        self._active[key] = now
        context.text(text, now)
        if (message.flush or (self._settings.is_auto and text.strip())) and context.takes_text:
            context.flush(now)

    def _open(self, key: ContextKey, message: ClientMessage, now: float) -> Context | None:
        try:
            if len(self._contexts) >= MAX_CONTEXTS:
                raise TooManySessions(f"{MAX_CONTEXTS} contexts are open on this socket, which is the limit")
            request = request_of(self._settings, message)
        except (StreamFault, TooManySessions) as fault:
            self._send(error_message(fault.code, str(fault), None, {"contextId": key}))
            return None
        context = self._add(key)
        self._alignments[key] = Alignment(is_synced=self._settings.is_synced)
        context.start(request, now)
        return context

    def _close_context(self, key: ContextKey, now: float) -> None:
        context = self._contexts.get(key)
        if context is None:
            return
        if context.takes_text:
            context.stop()
        else:
            self._cancel(key, now)

    def _cancel(self, key: ContextKey, now: float) -> None:
        self._collect(now)
        if key in self._contexts:
            self._drop(key)
            self._send(final_message({"contextId": key}))

    def _close_all(self) -> None:
        self._is_closing = True
        for context in self._contexts.values():
            if context.takes_text:
                context.stop()

    def frames(self, now: float) -> list[bytes | str]:
        self._collect(now)
        if self._is_closing and not self._contexts:
            self._shut(NORMAL, "done")
        return super().frames(now)

    def tick(self, now: float) -> None:
        """A context that nobody fed for the socket's `inactivity_timeout` is closed, as the vendor does."""
        for key, context in self._contexts.items():
            if context.takes_text and now - self._active[key] >= self._settings.inactivity_s:
                context.stop()
        super().tick(now)

    # ---- what the contexts say ---------------------------------------------------------------------

    def _say_reply(self, key: ContextKey, reply: replies.Reply, now: float) -> None:
        self._active[key] = now
        name = {"contextId": key}
        match reply:
            case replies.Audio():
                self._send(audio_message(reply, self._alignments[key], name))
            case replies.Finish(code=None):
                self._send(final_message(name))
            case replies.Finish(code=str() as code, message=message):
                self._send(error_message(code, message, None, name))
                self._send(final_message(name))

    def _drop(self, key: ContextKey) -> None:
        super()._drop(key)
        self._alignments.pop(key, None)
        self._active.pop(key, None)

    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        return error_message(code, message, close_code, {})
