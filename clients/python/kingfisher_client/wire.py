"""Messages of the live protocol <-> events."""

from __future__ import annotations

from typing import Any

import msgspec

from kingfisher_client.errors import ServerError
from kingfisher_client.events import Audio, Cancelled, Event, Finish, Flushed, Ready, Warning

__all__ = ["pack", "parse"]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def pack(event: str, **fields: Any) -> bytes:
    return _encoder.encode({"event": event, **fields})


def parse(frame: bytes | str) -> Event | None:
    """One frame -> an event; None for what this client does not know. Raises ServerError for every kind of "no"."""
    try:
        message = _decoder.decode(frame) if isinstance(frame, bytes) else None
    except (msgspec.DecodeError, ValueError) as error:
        raise ServerError("malformed", f"the server sent what is not msgpack: {error}") from None
    if not isinstance(message, dict):
        raise ServerError("malformed", "the server sent a frame that is no event")
    match message.get("event"):
        case "audio":
            return _audio(message)
        case "finish":
            return _finish(message)
        case "ready":
            return Ready(
                message.get("voice", ""),
                message.get("sample_rate", 0),
                message.get("request_id", ""),
                message.get("limits") or {},
            )
        case "flushed":
            return Flushed(message.get("seq", 0), message.get("audio_ms", 0.0))
        case "cancelled":
            return Cancelled(
                message.get("utterance", 0),
                message.get("spoken_text", ""),
                message.get("remaining_text", ""),
                message.get("audio_ms", 0.0),
            )
        case "warning":
            return Warning(message.get("code", ""), message.get("message", ""))
    if message.get("error"):
        # "error", or an event of a later server that carries one: never silence.
        raise ServerError(str(message.get("code", "error")), str(message["error"]))
    return None


def _audio(message: dict[str, Any]) -> Audio | None:
    data, packets = message.get("audio") or b"", tuple(message.get("packets") or ())
    if not data and not packets:
        return None
    return Audio(
        message.get("utterance", 0),
        message.get("seq", 0),
        message.get("pts_ms", 0.0),
        message.get("duration_ms", 0.0),
        data,
        packets,
    )


def _finish(message: dict[str, Any]) -> Finish:
    if message.get("reason") != "stop":
        raise ServerError(str(message.get("code", "error")), str(message.get("message", "the stream failed")))
    return Finish(message.get("usage") or {}, message.get("ttfa_ms"), message.get("time", 0.0))
