"""Bodies and messages -> what a context needs, checked."""

from __future__ import annotations

import math
from dataclasses import replace

from realtime.errors import BadRequest
from realtime.protocol.cartesia.messages import GenerationConfig, OutputFormat, SpeechBody
from realtime.protocol.events import AudioFormat, OutputSpec
from realtime.protocol.request import HTTP_LEAD_S, StreamRequest, checked_language, checked_number

__all__ = ["body_output", "buffer_delay_ms", "raw_output", "socket_request", "speech_request"]

RAW_FORMATS: dict[str, AudioFormat] = {
    "pcm_s16le": "pcm",
    "pcm_f32le": "f32",
    "pcm_mulaw": "mulaw",
    "pcm_alaw": "alaw",
}
WAV_FORMATS: dict[str, AudioFormat] = {
    "pcm_s16le": "wav",
    "pcm_f32le": "wav_f32",
    "pcm_mulaw": "wav_mulaw",
    "pcm_alaw": "wav_alaw",
}
RATES_HZ = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
MP3_RATE_HZ, MP3_BITRATES, DEFAULT_MP3_BITRATE = 44_100, (32_000, 64_000, 96_000, 128_000, 192_000), 128_000
SPEEDS, VOLUMES = (0.6, 1.5), (0.5, 2.0)
DEFAULT_BUFFER_DELAY_MS, MAX_BUFFER_DELAY_MS = 3_000.0, 5_000.0


def socket_request(message: SpeechBody) -> StreamRequest:
    """The stream that a context's first message opens; its text is fed apart. Raises BadRequest naming the field."""
    return _request(message, raw_output(message.output_format))


def speech_request(body: SpeechBody, output: OutputSpec) -> StreamRequest:
    """The stream of one HTTP request. Raises BadRequest."""
    if not body.transcript.strip():
        raise BadRequest("transcript is empty")
    return replace(_request(body, output), text=body.transcript, max_lead_s=HTTP_LEAD_S)


def _request(body: SpeechBody, output: OutputSpec) -> StreamRequest:
    _refuse_what_is_not_done(body)
    spoken = checked_language("language", body.language) or checked_language("locale", body.locale)
    names_language = body.normalization not in (None, "auto", "off")
    return StreamRequest(
        reference_id=_voice(body),
        output=_shaped(output, body.generation_config),
        normalize=body.normalization != "off",
        language=checked_language("normalization", body.normalization) if names_language else spoken,
    )


def body_output(form: OutputFormat | None) -> OutputSpec:
    """Of `/tts/bytes`. Raises BadRequest."""
    if form is None or form.container in (None, "raw"):
        return raw_output(form)
    if form.container == "mp3":
        return _mp3_output(form)
    if form.container != "wav":
        raise BadRequest(f"output_format.container is {form.container[:80]!r}; choose raw, wav or mp3")
    return OutputSpec(WAV_FORMATS[_encoding(form)], checked_rate_hz(form.sample_rate))


def raw_output(form: OutputFormat | None) -> OutputSpec:
    """Bare samples; all that the socket and SSE offer. Raises BadRequest."""
    form = form or OutputFormat()
    if form.container not in (None, "raw"):
        raise BadRequest(f"output_format.container is {form.container[:80]!r}; only raw is offered here")
    return OutputSpec(RAW_FORMATS[_encoding(form)], checked_rate_hz(form.sample_rate))


def _encoding(form: OutputFormat) -> str:
    """Raises BadRequest."""
    encoding = form.encoding or "pcm_s16le"
    if encoding not in RAW_FORMATS:
        raise BadRequest(f"output_format.encoding is {encoding[:80]!r}; choose one of {', '.join(RAW_FORMATS)}")
    return encoding


def _mp3_output(form: OutputFormat) -> OutputSpec:
    """Raises BadRequest."""
    bitrate = DEFAULT_MP3_BITRATE if form.bit_rate is None else form.bit_rate
    if bitrate not in MP3_BITRATES:
        raise BadRequest(f"output_format.bit_rate is {bitrate}; choose one of {', '.join(map(str, MP3_BITRATES))}")
    return OutputSpec("mp3", checked_rate_hz(form.sample_rate) or MP3_RATE_HZ, mp3_bitrate=bitrate)


def checked_rate_hz(rate_hz: int | None) -> int | None:
    """None: the voice's own. Raises BadRequest."""
    if rate_hz is not None and rate_hz not in RATES_HZ:
        raise BadRequest(f"output_format.sample_rate is {rate_hz}; choose one of {', '.join(map(str, RATES_HZ))}")
    return rate_hz


def buffer_delay_ms(value: float | None) -> float:
    """Raises BadRequest."""
    if value is None:
        return DEFAULT_BUFFER_DELAY_MS
    if not 0 <= value <= MAX_BUFFER_DELAY_MS:
        raise BadRequest(f"max_buffer_delay_ms is {value:g}; it must lie between 0 and {MAX_BUFFER_DELAY_MS:g}")
    return value


def _voice(body: SpeechBody) -> str | None:
    """The voice's id; one that does not exist is spoken by the default voice. Raises BadRequest."""
    if body.voice is None or isinstance(body.voice, str):
        return body.voice or None
    if body.voice.mode != "id":
        raise BadRequest(f"voice.mode is {body.voice.mode[:80]!r}; only id is supported")
    return body.voice.id or None


def _shaped(output: OutputSpec, config: GenerationConfig | None) -> OutputSpec:
    """With speed and volume; the latter is a factor on the wire. Raises BadRequest."""
    config = config or GenerationConfig()
    speed = checked_number("generation_config.speed", config.speed, 1.0, *SPEEDS)
    volume = checked_number("generation_config.volume", config.volume, 1.0, *VOLUMES)
    return replace(output, speed=speed, volume_db=20 * math.log10(volume))


def _refuse_what_is_not_done(body: SpeechBody) -> None:
    """All of it would change the sound or the answer."""
    emotion = None if body.generation_config is None else body.generation_config.emotion
    asked: list[tuple[str, object, tuple[object, ...]]] = [
        ("speed", body.speed, (None, "normal", 0)),
        ("duration", body.duration, (None,)),
        ("pronunciation_dict_id", body.pronunciation_dict_id, (None, "")),
        ("add_phoneme_timestamps", body.add_phoneme_timestamps, (None, False)),
        ("generation_config.emotion", emotion, (None, "", "neutral")),
    ]
    for name, value, allowed in asked:
        if value not in allowed:
            raise BadRequest(f"{name} is {str(value)[:80]!r}; it is not supported, leave it out")
