"""Query parameters -> what a context needs, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from realtime.errors import BadRequest
from realtime.protocol.deepgram.messages import SpeechBody
from realtime.protocol.events import AudioFormat, OutputSpec
from realtime.protocol.request import StreamRequest

__all__ = ["DEFAULT_MODEL", "socket_request", "speech_request"]

DEFAULT_MODEL = "aura-2"
DEFAULT_ENCODING = "linear16"
OPUS_BIT_RATES = (16_000, 128_000)
WRAPPERS = {"linear16": "none or wav", "mulaw": "none", "alaw": "none"}
DEFAULT_RATE_HZ, TELEPHONE_RATE_HZ = 24_000, 8_000
RAW_FORMATS: dict[str, AudioFormat] = {"linear16": "pcm", "mulaw": "mulaw", "alaw": "alaw"}
RATES_HZ: dict[str, tuple[int, ...]] = {
    "linear16": (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    "mulaw": (8_000, 16_000),
    "alaw": (8_000, 16_000),
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
    if not (body.text or "").strip():
        raise BadRequest("text is empty")
    return replace(_request(query, _body_output(query)), text=body.text or "")


def _body_output(query: Mapping[str, str]) -> OutputSpec:
    """Raises BadRequest."""
    encoding, rate = query.get("encoding", DEFAULT_ENCODING), query.get("sample_rate")
    if encoding == "opus":
        if query.get("container", "ogg") != "ogg":
            raise BadRequest(f"container is {query['container'][:80]!r}; opus comes in ogg")
        return OutputSpec("opus", None, _bit_rate(query.get("bit_rate")))
    if encoding not in RAW_FORMATS:
        offered = ", ".join((*RAW_FORMATS, "opus"))
        raise BadRequest(f"encoding is {encoding[:80]!r}; choose one of {offered}")
    container = query.get("container", "wav" if encoding == "linear16" else "none")
    if container == "none":
        return OutputSpec(RAW_FORMATS[encoding], _rate_hz(encoding, rate))
    if container != "wav" or encoding != "linear16":
        raise BadRequest(f"container is {container[:80]!r}; {encoding} comes in {WRAPPERS[encoding]}")
    return OutputSpec("wav", _rate_hz(encoding, rate))


def _bit_rate(value: str | None) -> int:
    """Raises BadRequest."""
    low, high = OPUS_BIT_RATES
    bits = OutputSpec().opus_bitrate if value is None else int(value) if value.isdecimal() else 0
    if bits is None or not low <= bits <= high:
        raise BadRequest(f"bit_rate is {str(value)[:80]!r}; it must lie between {low} and {high} bit/s")
    return bits


def _request(query: Mapping[str, str], output: OutputSpec) -> StreamRequest:
    speed = query.get("speed")
    if speed is not None and speed not in ("1", "1.0"):
        raise BadRequest(f"speed is {speed[:80]!r}; only 1.0 is supported")
    return StreamRequest(reference_id=query.get("model"), output=output)


def _rate_hz(encoding: str, value: str | None) -> int:
    """Raises BadRequest."""
    if value is None:
        return DEFAULT_RATE_HZ if encoding == "linear16" else TELEPHONE_RATE_HZ
    allowed_hz = RATES_HZ[encoding]
    if value not in map(str, allowed_hz):
        raise BadRequest(
            f"sample_rate is {value[:80]!r}; {encoding} is offered at {', '.join(map(str, allowed_hz))} Hz"
        )
    return int(value)
