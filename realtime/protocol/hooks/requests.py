"""The bodies that hosted platforms post for one sentence -> what a context needs, checked."""

from __future__ import annotations

from typing import Literal

import msgspec

from realtime.errors import BadRequest
from realtime.protocol.events import OutputSpec
from realtime.protocol.request import HTTP_LEAD_S, StreamRequest

__all__ = ["JambonzBody", "TrtcBody", "VapiBody", "jambonz_request", "trtc_request", "vapi_request"]

RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)


class VapiMessage(msgspec.Struct):
    type: str
    text: str
    sampleRate: int


class VapiBody(msgspec.Struct):
    message: VapiMessage


class JambonzBody(msgspec.Struct):
    text: str
    type: Literal["text", "ssml"] = "text"
    voice: str | None = None
    sampleRate: int = 8_000


class TrtcBody(msgspec.Struct):
    Text: str
    Format: str = "pcm"
    SampleRate: int = 16_000
    Channel: int = 1
    VoiceId: str | None = None


def vapi_request(body: VapiBody, voice: str | None) -> StreamRequest:
    """Bare samples at the call's rate. Raises BadRequest."""
    message = body.message
    if message.type != "voice-request":
        raise BadRequest(f"message.type is {message.type[:80]!r}; only voice-request is answered")
    return _request(message.text, voice, OutputSpec("pcm", _rate_hz("message.sampleRate", message.sampleRate)))


def jambonz_request(body: JambonzBody) -> StreamRequest:
    """A WAV file, whose header tells the rate. Raises BadRequest."""
    if body.type != "text":
        raise BadRequest("type is 'ssml'; SSML is not supported, send plain text")
    return _request(body.text, body.voice, OutputSpec("wav", _rate_hz("sampleRate", body.sampleRate)))


def trtc_request(body: TrtcBody) -> StreamRequest:
    """Raises BadRequest."""
    if body.Format not in ("pcm", "wav"):
        raise BadRequest(f"Format is {body.Format[:80]!r}; choose pcm or wav")
    if body.Channel != 1:
        raise BadRequest(f"Channel is {body.Channel}; only 1 is offered")
    form: Literal["pcm", "wav"] = "wav" if body.Format == "wav" else "pcm"
    return _request(body.Text, body.VoiceId, OutputSpec(form, _rate_hz("SampleRate", body.SampleRate)))


def _request(text: str, voice: str | None, output: OutputSpec) -> StreamRequest:
    if not text.strip():
        raise BadRequest("the text is empty")
    return StreamRequest(text, reference_id=voice or None, output=output, max_lead_s=HTTP_LEAD_S)


def _rate_hz(name: str, rate_hz: int) -> int:
    if rate_hz not in RATES_HZ:
        raise BadRequest(f"{name} is {rate_hz}; choose one of {', '.join(map(str, RATES_HZ))}")
    return rate_hz
