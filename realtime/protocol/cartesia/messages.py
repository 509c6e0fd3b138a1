"""What clients send, on the socket and over HTTP. Unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ["GenerationConfig", "GenerationRequest", "OutputFormat", "SpeechBody", "Voice"]


class Voice(msgspec.Struct):
    mode: str = "id"
    id: str | None = None


class OutputFormat(msgspec.Struct):
    container: str | None = None
    encoding: str | None = None
    sample_rate: int | None = None
    bit_rate: int | None = None


class GenerationConfig(msgspec.Struct):
    speed: float | None = None
    volume: float | None = None
    emotion: str | None = None


class SpeechBody(msgspec.Struct, kw_only=True):
    """The fields that the socket and HTTP share."""

    transcript: str = ""
    voice: Voice | str | None = None
    output_format: OutputFormat | None = None
    generation_config: GenerationConfig | None = None
    speed: str | float | None = None
    """The older form: slow, normal, fast, or a number around 0."""
    duration: float | None = None
    language: str | None = None
    locale: str | None = None
    """A newer name for `language`."""
    normalization: str | None = None
    """`auto`, `off`, or the language by which figures are read."""
    add_timestamps: bool | None = None
    add_phoneme_timestamps: bool | None = None
    pronunciation_dict_id: str | None = None


class GenerationRequest(SpeechBody, kw_only=True):
    context_id: Annotated[str, msgspec.Meta(max_length=256)] | None = None
    """It comes back with every message, so it must not be long."""
    continue_: bool | None = msgspec.field(name="continue", default=None)
    cancel: bool | None = None
    flush: bool | None = None
    max_buffer_delay_ms: float | None = None
