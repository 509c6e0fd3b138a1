"""Bytes <-> messages. Nothing here knows what a message means."""

from __future__ import annotations

from typing import Any

import msgspec

from realtime.errors import Malformed, TextFrame, TooBig
from realtime.protocol.fish.messages import Cancel, ClientMessage, Flush, Ping, Start, Stop, Text
from realtime.protocol.fish.replies import Reply

__all__ = ["decode", "encode"]

_KINDS: dict[str, type[ClientMessage]] = {
    "start": Start,
    "text": Text,
    "flush": Flush,
    "stop": Stop,
    "cancel": Cancel,
    "ping": Ping,
}

_decoder = msgspec.msgpack.Decoder()
_encoder = msgspec.msgpack.Encoder()


def encode(reply: Reply) -> bytes:
    return _encoder.encode(reply)


def decode(frame: bytes | str, max_bytes: int) -> ClientMessage | None:
    """One WebSocket frame -> a message, or None for an event we do not know.

    Raises TextFrame, TooBig or Malformed; nothing else, whatever the bytes.
    """
    if isinstance(frame, str):
        raise TextFrame("this protocol speaks binary msgpack frames; a text frame came")
    if len(frame) > max_bytes:
        raise TooBig(f"the message has {len(frame)} bytes; at most {max_bytes} are read")
    try:
        data: Any = _decoder.decode(frame)
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError, MemoryError) as error:
        raise Malformed(f"not msgpack: {error}") from None
    if not isinstance(data, dict):
        raise Malformed(f"a message is a map with the key 'event', not {type(data).__name__}")
    event = data.pop("event", None)
    if not isinstance(event, str):
        raise Malformed(f"'event' must be a string, not {type(event).__name__}")
    kind = _KINDS.get(event)
    if kind is None:
        return None
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, RecursionError, TypeError, ValueError) as error:
        raise Malformed(f"{event}: {error}") from None
