"""jambonz' streaming hook: the server says how it sounds, text comes in pieces, samples go out as binary messages.

`stop` is the end of the call's use of the socket, or a caller who interrupts: what was not sent is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from realtime.errors import BadRequest
from realtime.protocol import replies
from realtime.protocol.context import Context
from realtime.protocol.contexts import NORMAL, SocketLimits, decoded
from realtime.protocol.dialect import ContextKey
from realtime.protocol.events import OutputSpec
from realtime.protocol.lasting import FAILED, LastingDialect
from realtime.protocol.request import StreamRequest, checked_language

__all__ = ["JambonzSocket", "socket_request"]

DEFAULT_RATE_HZ = 8_000
RATES_HZ = (8_000, 16_000, 24_000, 32_000, 48_000)


class ClientMessage(msgspec.Struct):
    type: Literal["stream", "flush", "stop", "keepalive"]
    text: str | None = None


_decoder = msgspec.json.Decoder(ClientMessage)


def socket_request(query: Mapping[str, str]) -> StreamRequest:
    """Raises BadRequest."""
    rate = query.get("sampleRate", str(DEFAULT_RATE_HZ))
    if rate not in map(str, RATES_HZ):
        raise BadRequest(f"sampleRate is {rate[:80]!r}; choose one of {', '.join(map(str, RATES_HZ))}")
    return StreamRequest(
        reference_id=query.get("voice") or None,
        output=OutputSpec("pcm", int(rate)),
        language=checked_language("language", query.get("language")),
    )


class JambonzSocket(LastingDialect):
    def __init__(
        self, new_context: Callable[[], Context], request: StreamRequest, limits: SocketLimits, now: float
    ) -> None:
        super().__init__(new_context, request, limits, now)
        sound = {"sample_rate": request.output.sample_rate_hz, "base64_encoding": False}
        self._send({"type": "connect", "data": sound})

    def _take(self, frame: bytes | str, now: float) -> None:
        message, context = decoded(frame, _decoder), self._context
        match message.type:
            case "stream":
                self._speak(message.text or "", now)
            case "flush":
                if context.takes_text:
                    context.flush(now)
            case "stop":
                self._shut(NORMAL, "stopped")

    def _say_reply(self, key: ContextKey, reply: replies.Reply, now: float) -> None:
        match reply:
            case replies.Audio(chunk=chunk, has_sound=True):
                self._send(chunk.data)
            case replies.Finish(code=str() as code, message=message):
                self._send(self._error(code, message, None))
                self._shut(FAILED, message)

    def _error(self, code: str, message: str, close_code: int | None) -> Any:
        return {"type": "error", "error": message, "code": code}
