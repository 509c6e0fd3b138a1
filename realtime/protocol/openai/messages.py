"""What clients of OpenAI's Realtime API send, as far as speech out needs it. Other fields are ignored."""

from __future__ import annotations

import msgspec

from realtime.protocol.openai.speech import VoiceId

__all__ = ["AudioForm", "ClientEvent", "Content", "Item", "OutputConfig", "ResponseConfig", "SessionConfig"]


class AudioForm(msgspec.Struct):
    type: str
    rate: int | None = None


class OutputConfig(msgspec.Struct):
    voice: str | VoiceId | None = None
    speed: float | None = None
    format: AudioForm | str | None = None


class AudioConfig(msgspec.Struct):
    output: OutputConfig | None = None


class SessionConfig(msgspec.Struct):
    """The newer form nests what the older one has at the top."""

    audio: AudioConfig | None = None
    voice: str | VoiceId | None = None
    speed: float | None = None
    output_audio_format: str | None = None
    output_modalities: list[str] | None = None
    modalities: list[str] | None = None


class Content(msgspec.Struct):
    type: str
    text: str | None = None


class Item(msgspec.Struct):
    type: str = "message"
    id: str | None = None
    role: str = "user"
    content: list[Content] = []


class ResponseConfig(SessionConfig):
    input: list[Item] | None = None


class ClientEvent(msgspec.Struct):
    type: str
    event_id: str | None = None
    session: SessionConfig | None = None
    item: Item | None = None
    response: ResponseConfig | None = None
    item_id: str | None = None
    content_index: int | None = None
    audio_end_ms: float | None = None
