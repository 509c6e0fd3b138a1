"""`/v1/speak`: one stream from the first `Speak` to `Close`. Each `Flush` is answered once, when its audio was sent;
`Clear` (barge-in) at once, and nothing of what was dropped follows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from realtime.protocol import replies
from realtime.protocol.context import Context
from realtime.protocol.contexts import NORMAL, SocketLimits, decoded
from realtime.protocol.deepgram.messages import Clear, ClientMessage, Close, Flush, Speak
from realtime.protocol.deepgram.replies import error_message, metadata_message, sequence_message, warning_message
from realtime.protocol.dialect import ContextKey
from realtime.protocol.lasting import FAILED, LastingDialect
from realtime.protocol.request import StreamRequest

__all__ = ["DeepgramSocket"]

_decoder: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)


class DeepgramSocket(LastingDialect):
    def __init__(
        self,
        new_context: Callable[[], Context],
        request: StreamRequest,
        limits: SocketLimits,
        *,
        request_id: str,
        model: str,
        now: float,
    ) -> None:
        """`model` is what the client called it."""
        super().__init__(new_context, request, limits, now)
        self._sequence = count()
        self._send(metadata_message(request_id, model))

    def _take(self, frame: bytes | str, now: float) -> None:
        context = self._context
        match decoded(frame, _decoder):
            case Speak(text=text):
                self._speak(text, now)
            case Flush():
                if context.takes_text:
                    context.flush(now)
                else:
                    self._answer("Flushed", now)
            case Clear():
                context.cancel(None)
            case Close():
                if context.takes_text:
                    context.stop()
                elif not context.is_open:
                    self._shut(NORMAL, "done")

    def _answer(self, kind: str, now: float) -> None:
        """Behind what the context said."""
        self._collect(now)
        self._send(sequence_message(kind, next(self._sequence)))

    def _say_reply(self, key: ContextKey, reply: replies.Reply, now: float) -> None:
        match reply:
            case replies.Audio(chunk=chunk, has_sound=True):
                self._send(chunk.data)
            case replies.Flushed():
                self._send(sequence_message("Flushed", next(self._sequence)))
            case replies.Cancelled():
                self._send(sequence_message("Cleared", next(self._sequence)))
            case replies.Warning(code=code, message=message):
                self._send(warning_message(code, message))
            case replies.Finish(code=None):
                self._shut(NORMAL, "done")
            case replies.Finish(code=str() as code, message=message):
                self._send(error_message(code, message))
                self._shut(FAILED, message)

    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        return error_message(code, message)
