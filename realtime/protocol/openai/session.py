"""A Realtime session's settings: which voice, how fast, in which form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from realtime.errors import BadRequest
from realtime.protocol.events import AudioFormat, OutputSpec
from realtime.protocol.openai.messages import AudioForm, OutputConfig, SessionConfig
from realtime.protocol.openai.speech import RATE_HZ, VoiceId
from realtime.protocol.request import checked_number

__all__ = ["Session", "updated"]

SPEEDS = (0.25, 1.5)
_FORMS: dict[str, tuple[AudioFormat, int]] = {
    "audio/pcm": ("pcm", RATE_HZ),
    "audio/pcmu": ("mulaw", 8_000),
    "audio/pcma": ("alaw", 8_000),
}
_OLD_NAMES = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}


@dataclass(frozen=True, slots=True)
class Session:
    voice: str
    shown_voice: str
    """As the client called it."""
    form: str = "audio/pcm"
    speed: float = 1.0

    @property
    def output(self) -> OutputSpec:
        name, rate_hz = _FORMS[self.form]
        return OutputSpec(name, rate_hz, speed=self.speed)

    def shown(self, id_: str, model: str) -> dict[str, Any]:
        form = {"type": self.form} | ({"rate": RATE_HZ} if self.form == "audio/pcm" else {})
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": id_,
            "model": model,
            "output_modalities": ["audio"],
            "audio": {"output": {"format": form, "voice": self.shown_voice, "speed": self.speed}},
        }


def updated(session: Session, config: SessionConfig, voice_of: Callable[[str | VoiceId], str]) -> Session:
    """Fields that are absent stay. Raises BadRequest naming the field; then nothing changes."""
    modalities = config.output_modalities or config.modalities or ["audio"]
    if "audio" not in modalities:
        raise BadRequest(f"output_modalities is {modalities}; only speech is made here: ['audio']")
    output = (config.audio.output if config.audio is not None else None) or OutputConfig()
    voice = output.voice or config.voice
    if voice is not None:
        shown = voice.id if isinstance(voice, VoiceId) else voice
        session = replace(session, voice=voice_of(voice), shown_voice=shown)
    form = output.format or config.output_audio_format
    if form is not None:
        session = replace(session, form=_form(form))
    speed = config.speed if output.speed is None else output.speed
    return replace(session, speed=checked_number("speed", speed, session.speed, *SPEEDS))


def _form(asked: AudioForm | str) -> str:
    name = asked.type if isinstance(asked, AudioForm) else _OLD_NAMES.get(asked, asked)
    if name not in _FORMS:
        raise BadRequest(f"format is {name[:80]!r}; choose one of {', '.join(_FORMS)}")
    rate_hz = asked.rate if isinstance(asked, AudioForm) else None
    if rate_hz is not None and rate_hz != _FORMS[name][1]:
        raise BadRequest(f"format.rate is {rate_hz}; {name} is offered at {_FORMS[name][1]} Hz")
    return name
