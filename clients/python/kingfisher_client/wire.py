"""Messages of the live protocol <-> events."""

from __future__ import annotations

from typing import Any

import msgspec

from kingfisher_client.errors import ProtocolError, ServerError
from kingfisher_client.events import Audio, Cancelled, Event, Finish, Flushed, Ready, Warning

__all__ = ["pack", "parse"]

_KINDS: dict[object, type[Event]] = {
    "ready": Ready,
    "audio": Audio,
    "flushed": Flushed,
    "cancelled": Cancelled,
    "warning": Warning,
    "finish": Finish,
}
_OUR_NAMES = {"audio": "data", "time": "time_ms"}

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def pack(event: str, **fields: Any) -> bytes:
    return _encoder.encode({"event": event, **fields})


def parse(frame: bytes | str) -> Event | None:
    """One frame -> an event; None for what this client does not know, and for audio without sound or times.

    Raises ServerError for every kind of "no", ProtocolError for what is no event at all.
    """
    try:
        message = _decoder.decode(frame) if isinstance(frame, bytes) else None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the server sent what is not msgpack: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError("the server sent a frame that is no event")
    name = message.get("event")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if name == "finish" and message.get("reason") != "stop":
        code, text = message.get("code") or "error", message.get("message") or "the stream failed"
        raise ServerError(str(code), str(text), is_finish=True)
    if kind is None:
        if message.get("error"):
            # "error", or an event of a later server that carries one: never silence.
            raise ServerError(str(message.get("code") or "error"), str(message["error"]))
        return None
    # null means the default, and fields that this client does not know are ignored.
    fields = {_OUR_NAMES.get(key, key): value for key, value in message.items() if value is not None}
    try:
        event = msgspec.convert(fields, kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise ProtocolError(f"the server sent a broken {name!r} event: {error}") from None
    is_empty = isinstance(event, Audio) and not (event.data or event.packets or event.alignment)
    return None if is_empty else event
