"""Query parameters and settings -> what a context needs, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from realtime.errors import BadRequest
from realtime.protocol.elevenlabs.messages import ClientMessage, SpeechBody, VoiceSettings
from realtime.protocol.events import OutputSpec
from realtime.protocol.request import StreamRequest

__all__ = ["SocketSettings", "output_of", "request_of", "socket_settings", "speech_request"]

PCM_RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_KBITS = (32, 64, 96, 128, 192)

FORMATS: dict[str, OutputSpec] = {
    **{f"pcm_{rate_hz}": OutputSpec("pcm", rate_hz) for rate_hz in PCM_RATES_HZ},
    **{f"wav_{rate_hz}": OutputSpec("wav", rate_hz) for rate_hz in PCM_RATES_HZ},
    **{f"opus_48000_{kbit}": OutputSpec("opus", None, kbit * 1000) for kbit in OPUS_KBITS},
    "ulaw_8000": OutputSpec("mulaw", 8_000),
    "alaw_8000": OutputSpec("alaw", 8_000),
}
DEFAULT_FORMAT = "pcm_24000"
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
        is_auto=_flag(query, "auto_mode"),
        is_synced=_flag(query, "sync_alignment"),
        inactivity_s=_inactivity_s(query.get("inactivity_timeout")),
    )


def request_of(settings: SocketSettings, message: ClientMessage) -> StreamRequest:
    """The stream that a context's first message opens; its text is fed apart. Raises BadRequest."""
    _check_sound(message.voice_settings, message.pronunciation_dictionary_locators)
    return StreamRequest(reference_id=settings.voice, output=settings.output, normalize=settings.normalize)


def speech_request(voice: str, body: SpeechBody, query: Mapping[str, str]) -> StreamRequest:
    """The stream of one HTTP request. Raises BadRequest."""
    if not body.text.strip():
        raise BadRequest("text is empty")
    if body.seed is not None and not 0 <= body.seed <= MAX_SEED:
        raise BadRequest(f"seed is {body.seed}; it must lie between 0 and {MAX_SEED}")
    _check_sound(body.voice_settings, body.pronunciation_dictionary_locators)
    return StreamRequest(
        body.text,
        reference_id=voice,
        output=output_of(query.get("output_format") or body.output_format),
        normalize=_normalizes(body.apply_text_normalization),
        seed=body.seed,
    )


def output_of(name: str | None) -> OutputSpec:
    """None: the vendor's default. Raises BadRequest."""
    name = DEFAULT_FORMAT if name is None else name
    if name not in FORMATS:
        raise BadRequest(f"output_format is {name[:80]!r}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _check_sound(settings: VoiceSettings | None, dictionaries: list[object] | None) -> None:
    """Refuse what would change the sound and is not done."""
    if settings is not None and settings.speed not in (None, 1.0):
        raise BadRequest(f"voice_settings.speed is {settings.speed}; only 1.0 is supported")
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
