"""`start.request` -> what the context needs, checked: each field is honoured, clamped as documented, or an error."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from realtime.errors import BadRequest
from realtime.protocol.events import AudioFormat, OutputSpec, Reference
from realtime.protocol.fish.messages import Prosody, ReferenceClip, StartRequest
from realtime.protocol.fish.voices import MAX_CLIPS
from realtime.protocol.request import (
    CHUNK_CHARS,
    DEFAULT_CHUNK_CHARS,
    DEFAULT_LEAD_S,
    StreamRequest,
    checked_language,
    checked_number,
)
from realtime.text.segmenter import FIRST_CLAUSE_CHARS as FIRST_CLAUSE

__all__ = ["FORMATS", "PCM_RATES_HZ", "Defaults", "parse_request"]

FORMATS: tuple[AudioFormat, ...] = ("opus", "opus_packets", "pcm", "wav", "mp3", "aac", "flac")
PCM_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATE_HZ = 48_000
OPUS_BITRATES = (16_000, 128_000)
MP3_BITRATES = (32_000, 192_000)
MP3_RATE_HZ = 44_100
MAX_KBIT = 512
"""Clients send bit rates in bit/s or kbit/s; no sensible bit/s value is this small."""
MIN_TEMPERATURE = 0.01
SPEEDS = (0.5, 2.0)
VOLUMES_DB = (-20.0, 20.0)
MAX_SPEAKERS = 8

FIRST_CLAUSE_CHARS = {"normal": None, "balanced": FIRST_CLAUSE, "low": 8}
"""What `latency` changes: how soon the first unit may end, so how early speech begins, at some cost to its melody."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What an absent field means on a route."""

    format: AudioFormat = "opus"
    pcm_rate_hz: int | None = None
    """None: the voice's own."""
    max_lead_s: float = DEFAULT_LEAD_S


LIVE = Defaults()

_decoder = msgspec.msgpack.Decoder(StartRequest | None)


def parse_request(data: Any, defaults: Defaults = LIVE) -> StreamRequest:
    """`data`: msgpack (`msgspec.Raw`), a map or a StartRequest. Raises BadRequest naming the field, what was sent and
    what is allowed."""
    request = _read(data)
    chunk_chars = DEFAULT_CHUNK_CHARS if request.chunk_length is None else request.chunk_length
    seed = request.seed
    if seed is not None and not 0 <= seed < 1 << 63:
        raise BadRequest(f"seed is {seed}; it must be at least 0 and less than 2^63")
    latency = request.latency or "balanced"
    if latency not in FIRST_CLAUSE_CHARS:
        raise BadRequest(f"latency is {latency[:80]!r}; choose one of {', '.join(FIRST_CLAUSE_CHARS)}")
    reference_id, reference, speakers = _speakers(request)
    return StreamRequest(
        text=request.text or "",
        voice=request.voice,
        reference_id=reference_id,
        reference=reference,
        speakers=speakers,
        output=_output(request, defaults),
        chunk_chars=min(max(chunk_chars, CHUNK_CHARS[0]), CHUNK_CHARS[1]),
        first_clause_chars=FIRST_CLAUSE_CHARS[latency],
        normalize=request.normalize is not False,
        language=checked_language("language", request.language),
        temperature=max(MIN_TEMPERATURE, checked_number("temperature", request.temperature, 0.7, 0.0, 2.0)),
        top_p=checked_number("top_p", request.top_p, 0.8, 0.0, 1.0, exclusive=True),
        seed=seed,
        max_lead_s=checked_number("max_lead_s", request.max_lead_s, defaults.max_lead_s, 0.2, 30.0),
    )


def _read(data: Any) -> StartRequest:
    """Raises BadRequest."""
    try:
        if isinstance(data, msgspec.Raw):
            data = _decoder.decode(data)
        if isinstance(data, StartRequest):
            return data
        return msgspec.convert({} if data is None else data, StartRequest)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadRequest(f"request: {error}") from None


def _speakers(request: StartRequest) -> tuple[str | None, Reference | None, tuple[str | Reference, ...]]:
    """(reference_id, reference, speakers): one voice, or several for the turns of a dialogue."""
    is_dialogue = isinstance(request.reference_id, list) or any(isinstance(c, list) for c in request.references or [])
    clips = [_reference(clips) for clips in _by_speaker(request.references or [], is_dialogue=is_dialogue)]
    ids = [request.reference_id] if isinstance(request.reference_id, str) else request.reference_id or []
    several: list[str] | list[Reference] = clips or ids
    if len(several) > MAX_SPEAKERS:
        where = "references" if clips else "reference_id"
        raise BadRequest(f"{where} names {len(several)} speakers; at most {MAX_SPEAKERS} are supported")
    if is_dialogue and len(several) > 1:
        return None, None, tuple(several)
    return next(iter(ids), None) or None, next(iter(clips), None), ()


def _by_speaker(items: list[ReferenceClip | list[ReferenceClip]], *, is_dialogue: bool) -> list[list[ReferenceClip]]:
    """An item for each speaker of a dialogue; else all are clips of the only one."""
    clips = [[item] if isinstance(item, ReferenceClip) else item for item in items]
    return clips if is_dialogue or not clips else [list(chain.from_iterable(clips))]


def _reference(clips: list[ReferenceClip]) -> Reference:
    """The transcript counts where every clip has one: what is said in part of the sound misleads about the rest."""
    if not 1 <= len(clips) <= MAX_CLIPS:
        raise BadRequest(f"references has a speaker with {len(clips)} clips; 1 to {MAX_CLIPS} are supported")
    texts = [clip.text.strip() for clip in clips]
    return Reference(tuple(clip.audio for clip in clips), " ".join(texts) if all(texts) else "")


def _output(request: StartRequest, defaults: Defaults) -> OutputSpec:
    name = defaults.format if request.format is None else request.format
    chosen = next((f for f in FORMATS if f == name.lower()), None)
    if chosen is None:
        raise BadRequest(f"format {name[:80]!r} is not supported; choose one of {', '.join(FORMATS)}")
    is_opus = chosen in ("opus", "opus_packets")
    rate_hz, allowed_hz = request.sample_rate, (OPUS_RATE_HZ,) if is_opus else PCM_RATES_HZ
    if rate_hz is not None and rate_hz not in allowed_hz:
        raise BadRequest(f"sample_rate is {rate_hz}; {chosen} is offered at {', '.join(map(str, allowed_hz))} Hz")
    if rate_hz is None and not is_opus:
        rate_hz = MP3_RATE_HZ if chosen == "mp3" else defaults.pcm_rate_hz
    prosody = request.prosody or Prosody()
    return OutputSpec(
        chosen,
        rate_hz,
        opus_bitrate=_opus_bitrate(request.opus_bitrate) if is_opus else None,
        mp3_bitrate=_mp3_bitrate(request.mp3_bitrate) if chosen == "mp3" else OutputSpec().mp3_bitrate,
        speed=checked_number("prosody.speed", prosody.speed, 1.0, *SPEEDS),
        volume_db=checked_number("prosody.volume", prosody.volume, 0.0, *VOLUMES_DB),
    )


def _opus_bitrate(value: int | None) -> int | None:
    """None: libopus chooses."""
    if value is None:
        return OutputSpec().opus_bitrate
    return None if value < 0 else _bits("opus_bitrate", value, *OPUS_BITRATES)


def _mp3_bitrate(value: int | None) -> int:
    is_automatic = value is None or value < 0
    return OutputSpec().mp3_bitrate if is_automatic else _bits("mp3_bitrate", value or 0, *MP3_BITRATES)


def _bits(name: str, value: int, low: int, high: int) -> int:
    """bit/s or kbit/s -> bit/s."""
    bits = value * 1000 if value <= MAX_KBIT else value
    if not low <= bits <= high:
        raise BadRequest(f"{name} is {value}; it must lie between {low} and {high} bit/s")
    return bits
