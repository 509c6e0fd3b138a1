"""Everything that can go wrong for a client, as one tree.

    Refusal                    something the client asked for is not done; has a stable `code`
    ├── ConnectionFault        ends the socket: an `error` event, then a close with `close_code`
    │   ├── Malformed          1007  malformed
    │   ├── TextFrame          1003  text_frame
    │   ├── TooBig             1009  too_big
    │   └── BadOrder           1008  bad_order
    ├── StreamFault            ends the stream with `finish(error)`; the socket stays usable
    │   ├── BadRequest               bad_request
    │   │   └── NameTaken
    │   ├── UnknownVoice             unknown_voice
    │   ├── BadReference             bad_reference
    │   ├── TooMuchText              too_much_text
    │   ├── Overloaded               overloaded
    │   ├── Draining                 draining
    │   ├── Internal                 internal
    │   └── EngineFault              internal or bad_request, as the engine's side says
    └── HandshakeRefused       answered with `http_status` before the socket opens
        ├── BadKey             401   bad_key
        ├── VoiceNotFound      404   unknown_voice
        ├── TooManySessions    429   too_many_sessions  (Retry-After)
        └── Unavailable        503   overloaded, draining or not_ready  (Retry-After)

The codes and close codes are documented in clients/PROTOCOL.md; changing one is a wire change.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BadKey",
    "BadOrder",
    "BadReference",
    "BadRequest",
    "ConnectionFault",
    "Draining",
    "EngineFault",
    "HandshakeRefused",
    "Internal",
    "Malformed",
    "NameTaken",
    "Overloaded",
    "Refusal",
    "StreamFault",
    "TextFrame",
    "TooBig",
    "TooManySessions",
    "TooMuchText",
    "Unavailable",
    "UnknownVoice",
    "VoiceNotFound",
]


class Refusal(Exception):
    """`str(error)` is the message for the client: what, where, which limit."""

    code: ClassVar[str]


class ConnectionFault(Refusal):
    close_code: ClassVar[int]


class Malformed(ConnectionFault):
    code, close_code = "malformed", 1007


class TextFrame(ConnectionFault):
    code, close_code = "text_frame", 1003


class TooBig(ConnectionFault):
    code, close_code = "too_big", 1009


class BadOrder(ConnectionFault):
    code, close_code = "bad_order", 1008


class StreamFault(Refusal):
    pass


class BadRequest(StreamFault):
    code = "bad_request"


class NameTaken(BadRequest):
    """There is a voice of that name already."""


class UnknownVoice(StreamFault):
    code = "unknown_voice"


class BadReference(StreamFault):
    code = "bad_reference"


class TooMuchText(StreamFault):
    code = "too_much_text"


class Overloaded(StreamFault):
    code = "overloaded"


class Draining(StreamFault):
    """The server goes down before the stream is over; the socket closes with it."""

    code = "draining"


class Internal(StreamFault):
    code = "internal"


class EngineFault(StreamFault):
    """What the engine's side reports of one utterance, under its own code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]


class HandshakeRefused(Refusal):
    http_status: ClassVar[int]
    retry_after_s: ClassVar[int | None] = None


class BadKey(HandshakeRefused):
    code, http_status = "bad_key", 401


class VoiceNotFound(HandshakeRefused):
    code, http_status = "unknown_voice", 404


class TooManySessions(HandshakeRefused):
    code, http_status, retry_after_s = "too_many_sessions", 429, 2


class Unavailable(HandshakeRefused):
    """`reason` is the code: overloaded, draining or not_ready."""

    http_status, retry_after_s = 503, 5

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = reason  # type: ignore[misc]
