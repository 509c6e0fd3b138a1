"""Dialects with one context for the socket's life, warm from the begin; its stream starts with the first text."""

from __future__ import annotations

from collections.abc import Callable

from realtime.protocol.context import Context
from realtime.protocol.contexts import NORMAL, ContextsDialect, SocketLimits
from realtime.protocol.dialect import ContextKey
from realtime.protocol.request import StreamRequest

__all__ = ["FAILED", "LastingDialect"]

ONLY: ContextKey = ""
FAILED = 1011


class LastingDialect(ContextsDialect):
    def __init__(
        self, new_context: Callable[[], Context], request: StreamRequest, limits: SocketLimits, now: float
    ) -> None:
        """The voice's prefill is asked for at once."""
        super().__init__(new_context, limits, now)
        self._request = request
        self._context = self._add(ONLY)
        self._context.warm()

    def _speak(self, text: str, now: float) -> None:
        if not self._context.is_open:
            self._context.start(self._request, now)
        if self._context.takes_text:
            self._context.text(text, now)

    def tick(self, now: float) -> None:
        """A stream with nothing to say is idle as well."""
        if not self._is_shut and now - self._active_s >= self._limits.idle_s:
            self._shut(NORMAL, f"idle for {self._limits.idle_s:g} s")
        super().tick(now)

    def drain(self, now: float) -> None:
        """The stream ends with what it has."""
        super().drain(now)
        if self._context.takes_text:
            self._context.stop()
