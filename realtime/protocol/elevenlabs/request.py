"""Query parameters and settings -> what a context needs, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from realtime.errors import BadRequest
from realtime.protocol.elevenlabs.messages import ClientMessage, SpeechBody, VoiceSettings
from realtime.protocol.events import OutputSpec
from realtime.protocol.request import HTTP_LEAD_S, StreamRequest, checked_language, checked_number

__all__ = ["SocketSettings", "output_of", "request_of", "socket_settings", "speech_request"]

PCM_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_KBITS = (32, 64, 96, 128, 192)

MP3_FORMS = ((22_050, 32), (24_000, 48), (44_100, 32), (44_100, 64), (44_100, 96), (44_100, 128), (44_100, 192))

FORMATS: dict[str, OutputSpec] = {
    **{f"mp3_{hz}_{kbit}": OutputSpec("mp3", hz, mp3_bitrate=kbit * 1000) for hz, kbit in MP3_FORMS},
    **{f"pcm_{rate_hz}": OutputSpec("pcm", rate_hz) for rate_hz in PCM_RATES_HZ},
    **{f"wav_{rate_hz}": OutputSpec("wav", rate_hz) for rate_hz in PCM_RATES_HZ},
    **{f"opus_48000_{kbit}": OutputSpec("opus", None, kbit * 1000) for kbit in OPUS_KBITS},
    "ulaw_8000": OutputSpec("mulaw", 8_000),
    "alaw_8000": OutputSpec("alaw", 8_000),
}
DEFAULT_FORMAT = "mp3_44100_128"
SPEEDS = (0.7, 1.2)
DEFAULT_INACTIVITY_S = 20.0
MAX_INACTIVITY_S = 180.0
MAX_SEED = 4_294_967_295


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """What the query of a socket fixes for all its contexts."""

    voice: str
    """As in the path; one that does not exist is spoken by the default voice."""
    output: OutputSpec
    normalize: bool
    language: str | None
    is_auto: bool
    """`auto_mode`: each message is a phrase that is spoken at once."""
    is_synced: bool
    """`sync_alignment`: times count from the context's begin, not from the message's."""
    inactivity_s: float


def socket_settings(voice: str, query: Mapping[str, str]) -> SocketSettings:
    """Raises BadRequest naming the parameter, what was sent and what is allowed."""
    if _flag(query, "enable_ssml_parsing"):
        raise BadRequest("enable_ssml_parsing is true; SSML is not supported, send plain text")
    return SocketSettings(
        voice,
        output_of(query.get("output_format")),
        _normalizes(query.get("apply_text_normalization")),
        checked_language("language_code", query.get("language_code")),
        is_auto=_flag(query, "auto_mode"),
        is_synced=_flag(query, "sync_alignment"),
        inactivity_s=_inactivity_s(query.get("inactivity_timeout")),
    )


def request_of(settings: SocketSettings, message: ClientMessage) -> StreamRequest:
    """The stream that a context's first message opens; its text is fed apart. Raises BadRequest."""
    _refuse_dictionaries(message.pronunciation_dictionary_locators)
    output = _at_speed(settings.output, message.voice_settings)
    return StreamRequest(
        reference_id=settings.voice, output=output, normalize=settings.normalize, language=settings.language
    )


def speech_request(voice: str, body: SpeechBody, query: Mapping[str, str]) -> StreamRequest:
    """The stream of one HTTP request. Raises BadRequest."""
    if not body.text.strip():
        raise BadRequest("text is empty")
    if body.seed is not None and not 0 <= body.seed <= MAX_SEED:
        raise BadRequest(f"seed is {body.seed}; it must lie between 0 and {MAX_SEED}")
    _refuse_dictionaries(body.pronunciation_dictionary_locators)
    if body.audio_effects:
        raise BadRequest("audio_effects are not supported")
    return StreamRequest(
        body.text,
        reference_id=voice,
        output=_at_speed(output_of(query.get("output_format") or body.output_format), body.voice_settings),
        normalize=_normalizes(body.apply_text_normalization),
        language=checked_language("language_code", body.language_code),
        seed=body.seed,
        max_lead_s=HTTP_LEAD_S,
    )


def output_of(name: str | None) -> OutputSpec:
    """None: the vendor's default. Raises BadRequest."""
    name = DEFAULT_FORMAT if name is None else name
    if name not in FORMATS:
        raise BadRequest(f"output_format is {name[:80]!r}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _at_speed(output: OutputSpec, settings: VoiceSettings | None) -> OutputSpec:
    """Raises BadRequest."""
    speed = None if settings is None else settings.speed
    return replace(output, speed=checked_number("voice_settings.speed", speed, 1.0, *SPEEDS))


def _refuse_dictionaries(dictionaries: list[object] | None) -> None:
    if dictionaries:
        raise BadRequest("pronunciation_dictionary_locators are not supported")


def _normalizes(value: str | None) -> bool:
    if value not in (None, "auto", "on", "off"):
        raise BadRequest(f"apply_text_normalization is {str(value)[:80]!r}; choose auto, on or off")
    return value != "off"


def _inactivity_s(value: str | None) -> float:
    if value is None:
        return DEFAULT_INACTIVITY_S
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_INACTIVITY_S:
        raise BadRequest(f"inactivity_timeout is {value[:80]!r}; it must be above 0 and at most {MAX_INACTIVITY_S:g} s")
    return seconds


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name, "false").lower()
    if value not in ("true", "false", "1", "0"):
        raise BadRequest(f"{name} is {value[:80]!r}; it must be true or false")
    return value in ("true", "1")
