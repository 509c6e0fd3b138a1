"""`start.request` -> what the context needs, checked: each field is honoured, clamped as documented, or an error."""

from __future__ import annotations

from typing import Any

import msgspec

from realtime.errors import BadRequest
from realtime.protocol.events import AudioFormat, OutputSpec, Reference
from realtime.protocol.fish.messages import StartRequest
from realtime.protocol.request import (
    CHUNK_CHARS,
    DEFAULT_CHUNK_CHARS,
    DEFAULT_LEAD_S,
    StreamRequest,
    checked_number,
)

__all__ = ["PCM_RATES_HZ", "parse_request"]

FORMATS: tuple[AudioFormat, ...] = ("opus", "opus_packets", "pcm", "wav")
PCM_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATE_HZ = 48_000
OPUS_BITRATES = (16_000, 128_000)
MAX_KBIT = 512
"""Clients send bit rates in bit/s or kbit/s; no sensible bit/s value is this small."""
MIN_TEMPERATURE = 0.01


def parse_request(data: Any) -> StreamRequest:
    """`data` as it was decoded. Raises BadRequest naming the field, what was sent and what is allowed."""
    try:
        request = msgspec.convert({} if data is None else data, StartRequest)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadRequest(f"request: {error}") from None
    chunk_chars = DEFAULT_CHUNK_CHARS if request.chunk_length is None else request.chunk_length
    seed = request.seed
    if seed is not None and not 0 <= seed < 1 << 63:
        raise BadRequest(f"seed is {seed}; it must be at least 0 and less than 2^63")
    return StreamRequest(
        text=request.text or "",
        voice=request.voice,
        reference_id=request.reference_id or None,
        reference=_reference(request),
        output=_output(request),
        chunk_chars=min(max(chunk_chars, CHUNK_CHARS[0]), CHUNK_CHARS[1]),
        normalize=request.normalize is not False,
        temperature=max(MIN_TEMPERATURE, checked_number("temperature", request.temperature, 0.7, 0.0, 2.0)),
        top_p=checked_number("top_p", request.top_p, 0.8, 0.0, 1.0, exclusive=True),
        seed=seed,
        max_lead_s=checked_number("max_lead_s", request.max_lead_s, DEFAULT_LEAD_S, 0.2, 30.0),
    )


def _reference(request: StartRequest) -> Reference | None:
    clips = request.references or []
    if len(clips) > 1:
        raise BadRequest(f"references has {len(clips)} clips; one is supported")
    return Reference(clips[0].audio, clips[0].text) if clips else None


def _output(request: StartRequest) -> OutputSpec:
    name = "opus" if request.format is None else request.format
    chosen = next((f for f in FORMATS if f == name.lower()), None)
    if chosen is None:
        raise BadRequest(f"format {name[:80]!r} is not supported; choose one of {', '.join(FORMATS)}")
    is_opus = chosen in ("opus", "opus_packets")
    rate_hz, allowed_hz = request.sample_rate, (OPUS_RATE_HZ,) if is_opus else PCM_RATES_HZ
    if rate_hz is not None and rate_hz not in allowed_hz:
        raise BadRequest(f"sample_rate is {rate_hz}; {chosen} is offered at {', '.join(map(str, allowed_hz))} Hz")
    return OutputSpec(chosen, rate_hz, _bitrate(request.opus_bitrate) if is_opus else None)


def _bitrate(value: int | None) -> int | None:
    """bit/s or kbit/s; negative means automatic (None)."""
    if value is None:
        return OutputSpec().opus_bitrate
    if value < 0:
        return None
    bits = value * 1000 if value <= MAX_KBIT else value
    if not OPUS_BITRATES[0] <= bits <= OPUS_BITRATES[1]:
        low, high = OPUS_BITRATES
        raise BadRequest(f"opus_bitrate is {value}; it must lie between {low} and {high} bit/s")
    return bits
