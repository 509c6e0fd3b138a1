"""`stream-input`: one context, from the first message to the empty text that ends it; then the socket closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from realtime.errors import StreamFault
from realtime.protocol import replies
from realtime.protocol.context import Context
from realtime.protocol.contexts import NORMAL, ContextsDialect, SocketLimits, decoded
from realtime.protocol.dialect import ContextKey
from realtime.protocol.elevenlabs.alignment import Alignment
from realtime.protocol.elevenlabs.messages import ClientMessage
from realtime.protocol.elevenlabs.replies import audio_message, error_message, final_message
from realtime.protocol.elevenlabs.request import SocketSettings, request_of

__all__ = ["SingleStream"]

ONLY: ContextKey = ""
POLICY, FAILED = 1008, 1011

_decoder = msgspec.json.Decoder(ClientMessage)


class SingleStream(ContextsDialect):
    def __init__(
        self, new_context: Callable[[], Context], settings: SocketSettings, limits: SocketLimits, now: float
    ) -> None:
        """The voice's prefill is asked for at once."""
        super().__init__(new_context, limits, now)
        self._settings = settings
        self._alignment = Alignment(is_synced=settings.is_synced)
        self._has_started = False
        self._context = self._add(ONLY)
        self._context.warm()

    def _take(self, frame: bytes | str, now: float) -> None:
        message, context = decoded(frame, _decoder), self._context
        if not self._has_started:
            self._has_started = True
            try:
                context.start(request_of(self._settings, message), now)
            except StreamFault as fault:
                context.refuse(fault)
        if not context.takes_text:
            return  # after its end, or crossing with its failure
        if message.text == "":
            context.stop()
            return
        text = message.text or ""
        context.text(text, now)
        if (message.flush or (self._settings.is_auto and text.strip())) and context.takes_text:
            context.flush(now)

    def tick(self, now: float) -> None:
        is_waiting = self._context.takes_text or not self._has_started
        if is_waiting and not self._is_shut and now - self._active_s >= self._settings.inactivity_s:
            message = f"no input came for {self._settings.inactivity_s:g} s; send a single space to keep the socket"
            self._send(self._error("idle", message, POLICY))
            self._shut(POLICY, message)
        super().tick(now)

    def _say_reply(self, key: ContextKey, reply: replies.Reply, now: float) -> None:
        match reply:
            case replies.Audio():
                self._send(audio_message(reply, self._alignment, {}))
            case replies.Finish(code=None):
                self._send(final_message({}))
                self._shut(NORMAL, "done")
            case replies.Finish(code=str() as code, message=message):
                close_code = POLICY if code in ("bad_request", "too_much_text") else FAILED
                self._send(self._error(code, message, close_code))
                self._shut(close_code, message)

    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        return error_message(code, message, close_code, {})
