"""Bytes <-> messages. Nothing here knows what a message means.

What is not read is skipped and never becomes an object: 15 MB of empty lists in an unknown field would hold the event
loop for eight seconds, where skipping them takes a twentieth of one.
"""

from __future__ import annotations

import msgspec

from realtime.errors import Malformed, TextFrame, TooBig
from realtime.protocol.fish.messages import Cancel, ClientMessage, Flush, Ping, Start, Stop, Text
from realtime.protocol.fish.replies import Reply

__all__ = ["decode", "encode"]


class _Envelope(msgspec.Struct):
    event: str


_KINDS: dict[str, type[ClientMessage]] = {
    "start": Start,
    "text": Text,
    "flush": Flush,
    "stop": Stop,
    "cancel": Cancel,
    "ping": Ping,
}

_envelope = msgspec.msgpack.Decoder(_Envelope)
_decoders = {name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()}
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
        event = _envelope.decode(frame).event
        decoder = _decoders.get(event)
        return None if decoder is None else decoder.decode(frame)
    except msgspec.ValidationError as error:
        raise Malformed(f"a message is a map with the key 'event', a string, and the fields of that: {error}") from None
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError, MemoryError) as error:
        raise Malformed(f"not msgpack: {error}") from None
