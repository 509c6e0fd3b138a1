"""What clients send: the messages of both sockets and the body of the HTTP routes. Unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

__all__ = ["ClientMessage", "SpeechBody", "VoiceSettings"]


ContextId = Annotated[str, msgspec.Meta(max_length=256)]
"""It comes back with every message, so it must not be long."""


class VoiceSettings(msgspec.Struct):
    """`stability`, `similarity_boost`, `style` and `use_speaker_boost` mean nothing to this model."""

    speed: float | None = None


class ClientMessage(msgspec.Struct):
    """`stream-input` has no contexts, and ignores those fields."""

    text: str | None = None
    context_id: ContextId | None = None
    contextId: ContextId | None = None
    flush: bool | None = None
    close_context: bool | None = None
    close_socket: bool | None = None
    voice_settings: VoiceSettings | None = None
    pronunciation_dictionary_locators: list[Any] | None = None


class SpeechBody(msgspec.Struct):
    text: str
    voice_settings: VoiceSettings | None = None
    pronunciation_dictionary_locators: list[Any] | None = None
    seed: int | None = None
    apply_text_normalization: str | None = None
    language_code: str | None = None
    audio_effects: dict[str, Any] | None = None
    output_format: str | None = None
