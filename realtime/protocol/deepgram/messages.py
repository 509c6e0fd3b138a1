"""The messages of /v1/speak, and the body of its HTTP form. Unknown fields are ignored."""

from __future__ import annotations

import msgspec

__all__ = ["Clear", "ClientMessage", "Close", "Flush", "Speak", "SpeechBody"]


class Speak(msgspec.Struct, tag_field="type", tag="Speak"):
    text: str


class Flush(msgspec.Struct, tag_field="type", tag="Flush"):
    pass


class Clear(msgspec.Struct, tag_field="type", tag="Clear"):
    pass


class Close(msgspec.Struct, tag_field="type", tag="Close"):
    pass


ClientMessage = Speak | Flush | Clear | Close


class SpeechBody(msgspec.Struct):
    text: str | None = None
    url: str | None = None
