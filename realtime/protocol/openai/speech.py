"""OpenAI's `POST /v1/audio/speech`: its body, its events, its errors."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from realtime.errors import BadRequest, Refusal
from realtime.protocol.events import AudioFormat, OutputSpec
from realtime.protocol.fish.request import PCM_RATES_HZ
from realtime.protocol.replies import Audio, Finish
from realtime.protocol.request import HTTP_LEAD_S, StreamRequest, checked_number
from realtime.text.segmenter import is_speakable

__all__ = [
    "MODELS",
    "RATE_HZ",
    "SpeechBody",
    "VoiceId",
    "done_event",
    "error_body",
    "event_line",
    "model_entry",
    "sound_event",
    "speech_request",
    "usage_of",
    "voice_for",
]

MODELS = ("kingfisher", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""Names under which clients ask for the one model there is; any other name means the same."""

RATE_HZ = 24_000
SPEEDS = (0.25, 4.0)
FORMATS: tuple[AudioFormat, ...] = ("mp3", "opus", "aac", "flac", "wav", "pcm")
STREAM_FORMATS = ("audio", "sse")
MS_PER_AUDIO_TOKEN = 50


class VoiceId(msgspec.Struct):
    id: str


class SpeechBody(msgspec.Struct):
    """`model`, `instructions` and what is not listed are accepted and change nothing."""

    input: str
    voice: str | VoiceId | None = None
    response_format: str | None = None
    speed: float | None = None
    stream_format: str | None = None
    sample_rate: int | None = None
    """Of no OpenAI, but of platforms that call servers like this one."""


def speech_request(body: SpeechBody, voice: str) -> tuple[StreamRequest, bool]:
    """The stream, and whether it goes out as events. `voice` is a known one. Raises BadRequest naming the field."""
    if not is_speakable(body.input):
        raise BadRequest("input has nothing to say")
    name = body.response_format or "mp3"
    chosen = next((f for f in FORMATS if f == name), None)
    if chosen is None:
        raise BadRequest(f"response_format is {name[:80]!r}; choose one of {', '.join(FORMATS)}")
    stream_format = body.stream_format or "audio"
    if stream_format not in STREAM_FORMATS:
        raise BadRequest(f"stream_format is {stream_format[:80]!r}; choose one of {', '.join(STREAM_FORMATS)}")
    allowed_hz = (48_000,) if chosen == "opus" else PCM_RATES_HZ
    if body.sample_rate is not None and body.sample_rate not in allowed_hz:
        offered = ", ".join(map(str, allowed_hz))
        raise BadRequest(f"sample_rate is {body.sample_rate}; {chosen} is offered at {offered} Hz")
    output = OutputSpec(
        chosen,
        None if chosen == "opus" else body.sample_rate or RATE_HZ,
        speed=checked_number("speed", body.speed, 1.0, *SPEEDS),
    )
    request = StreamRequest(text=body.input, voice=voice, output=output, max_lead_s=HTTP_LEAD_S)
    return request, stream_format == "sse"


def voice_for(asked: str | VoiceId | None, known: Collection[str], own: Sequence[str]) -> str:
    """A known voice for any name. `own`: the model's, the default first; a preset name of OpenAI's always means the
    same one of them."""
    name = asked.id if isinstance(asked, VoiceId) else asked
    if not name:
        return own[0]
    return name if name in known else own[zlib.crc32(name.lower().encode("utf-8", "replace")) % len(own)]


def sound_event(audio: Audio) -> dict[str, Any]:
    return {"type": "speech.audio.delta", "audio": base64.b64encode(audio.chunk.data).decode()}


def done_event(finish: Finish) -> dict[str, Any]:
    return {"type": "speech.audio.done", "usage": usage_of(finish)}


def usage_of(finish: Finish) -> dict[str, int]:
    """Tokens are a manner of speaking here: bytes of text, and 50 ms of sound."""
    heard = round(finish.audio_ms / MS_PER_AUDIO_TOKEN)
    return {
        "input_tokens": finish.utf8_bytes,
        "output_tokens": heard,
        "total_tokens": finish.utf8_bytes + heard,
    }


def event_line(event: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


def error_body(refusal: Refusal, status: int) -> dict[str, Any]:
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": str(refusal), "type": kind, "param": None, "code": refusal.code}}


def model_entry(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_764_547_200, "owned_by": "kingfisher"}
