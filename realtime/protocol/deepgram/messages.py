"""The messages of /v1/speak and /v2/speak, and the body of the HTTP form. Unknown fields are ignored."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Clear", "ClientMessage", "Close", "Configure", "Flush", "FluxMessage", "Interrupt", "Speak", "SpeechBody"]


class Speak(msgspec.Struct, tag_field="type", tag="Speak"):
    text: str


class Flush(msgspec.Struct, tag_field="type", tag="Flush"):
    pass


class Clear(msgspec.Struct, tag_field="type", tag="Clear"):
    pass


class Close(msgspec.Struct, tag_field="type", tag="Close"):
    pass


ClientMessage = Speak | Flush | Clear | Close


class PlaybackOffset(msgspec.Struct):
    value: float
    """Milliseconds of the session's audio that were played."""
    type: Literal["time_ms"] = "time_ms"


class Interrupt(msgspec.Struct, tag_field="type", tag="Interrupt"):
    playback_offset: PlaybackOffset | None = None


class Configure(msgspec.Struct, tag_field="type", tag="Configure"):
    speed: float | None = None


FluxMessage = Speak | Flush | Interrupt | Configure | Close


class SpeechBody(msgspec.Struct):
    text: str | None = None
    url: str | None = None
