"""Query parameters -> what a context needs, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from realtime.errors import BadRequest
from realtime.protocol.deepgram.messages import SpeechBody
from realtime.protocol.events import AudioFormat, OutputSpec
from realtime.protocol.request import HTTP_LEAD_S, StreamRequest, checked_number

__all__ = ["DEFAULT_MODEL", "checked_speed", "socket_request", "speech_request"]

DEFAULT_MODEL = "aura-2"
DEFAULT_ENCODING = "mp3"
"""Of HTTP; a socket's is linear16."""
CONTAINERS = {
    "linear16": ("wav", "none"),
    "mulaw": ("wav", "none"),
    "alaw": ("wav", "none"),
    "mp3": ("none",),
    "opus": ("ogg",),
    "aac": ("none",),
    "flac": ("none",),
}
"""By encoding, the default first."""
MP3_RATE_HZ, MP3_BIT_RATES, OPUS_BIT_RATES, DEFAULT_BIT_RATE = 22_050, (32_000, 48_000), (16_000, 128_000), 48_000
SPEEDS = (0.5, 1.5)
DEFAULT_RATE_HZ, TELEPHONE_RATE_HZ = 24_000, 8_000
RAW_FORMATS: dict[str, AudioFormat] = {"linear16": "pcm", "mulaw": "mulaw", "alaw": "alaw"}
WAV_FORMATS: dict[str, AudioFormat] = {"linear16": "wav", "mulaw": "wav_mulaw", "alaw": "wav_alaw"}
RATES_HZ: dict[str, tuple[int, ...]] = {
    "linear16": (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    "mulaw": (8_000, 16_000),
    "alaw": (8_000, 16_000),
    "aac": (22_050, 24_000, 44_100, 48_000),
    "flac": (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
}


def socket_request(query: Mapping[str, str]) -> StreamRequest:
    """Every stream of a socket; bare samples only. Raises BadRequest naming the parameter."""
    encoding = query.get("encoding", "linear16")
    if encoding not in RAW_FORMATS:
        raise BadRequest(f"encoding is {encoding[:80]!r}; choose one of {', '.join(RAW_FORMATS)}")
    if query.get("container", "none") != "none":
        raise BadRequest(f"container is {query['container'][:80]!r}; only none is offered here")
    return _request(query, OutputSpec(RAW_FORMATS[encoding], _rate_hz(encoding, query.get("sample_rate"))))


def speech_request(body: SpeechBody, query: Mapping[str, str]) -> StreamRequest:
    """The stream of one HTTP request. Raises BadRequest naming the field or parameter."""
    if body.url is not None:
        raise BadRequest("url is not supported; send the text itself")
    if "callback" in query:
        raise BadRequest("callback is not supported; the sound comes with the answer")
    if not (body.text or "").strip():
        raise BadRequest("text is empty")
    return replace(_request(query, _body_output(query)), text=body.text or "", max_lead_s=HTTP_LEAD_S)


def _body_output(query: Mapping[str, str]) -> OutputSpec:
    """Raises BadRequest."""
    encoding = query.get("encoding", DEFAULT_ENCODING)
    if encoding not in CONTAINERS:
        raise BadRequest(f"encoding is {encoding[:80]!r}; choose one of {', '.join(CONTAINERS)}")
    container = query.get("container", CONTAINERS[encoding][0])
    if container not in CONTAINERS[encoding]:
        raise BadRequest(f"container is {container[:80]!r}; {encoding} comes in {' or '.join(CONTAINERS[encoding])}")
    match encoding:
        case "mp3":
            return OutputSpec("mp3", MP3_RATE_HZ, mp3_bitrate=_bit_rate(query, MP3_BIT_RATES))
        case "opus":
            return OutputSpec("opus", None, _bit_rate(query, OPUS_BIT_RATES))
        case "aac" | "flac":
            if "bit_rate" in query:
                raise BadRequest(f"bit_rate cannot be chosen for {encoding}; leave it out")
            return OutputSpec("aac" if encoding == "aac" else "flac", _rate_hz(encoding, query.get("sample_rate")))
    forms = WAV_FORMATS if container == "wav" else RAW_FORMATS
    return OutputSpec(forms[encoding], _rate_hz(encoding, query.get("sample_rate")))


def _bit_rate(query: Mapping[str, str], allowed: tuple[int, int]) -> int:
    """bit/s. Raises BadRequest."""
    low, high = allowed
    value = query.get("bit_rate", str(DEFAULT_BIT_RATE))
    bits = int(value) if value.isdecimal() and len(value) < 10 else 0
    if not low <= bits <= high:
        raise BadRequest(f"bit_rate is {value[:80]!r}; it must lie between {low} and {high} bit/s")
    return bits


def _request(query: Mapping[str, str], output: OutputSpec) -> StreamRequest:
    if query.get("expressivity", "0") != "0":
        raise BadRequest(f"expressivity is {query['expressivity'][:80]!r}; only 0, the voice's own, is offered")
    try:
        speed = float(query.get("speed", "1"))
    except ValueError:
        speed = math.nan
    return StreamRequest(reference_id=query.get("model"), output=replace(output, speed=checked_speed(speed)))


def checked_speed(speed: float | None) -> float:
    """None: 1. Raises BadRequest."""
    return checked_number("speed", speed, 1.0, *SPEEDS)


def _rate_hz(encoding: str, value: str | None) -> int:
    """Raises BadRequest."""
    if value is None:
        return TELEPHONE_RATE_HZ if encoding in ("mulaw", "alaw") else DEFAULT_RATE_HZ
    allowed_hz = RATES_HZ[encoding]
    if value not in map(str, allowed_hz):
        raise BadRequest(
            f"sample_rate is {value[:80]!r}; {encoding} is offered at {', '.join(map(str, allowed_hz))} Hz"
        )
    return int(value)
