"""What callers of the vendors' packages can ask of speech, by protocol."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from cartesia import Cartesia
from cartesia.types import GenerationConfigParam, GenerationRequestParam
from deepgram import DeepgramClient
from elevenlabs.client import ElevenLabs
from elevenlabs.types import VoiceSettings
from fishaudio import FishAudio
from fishaudio.types import Prosody, TTSConfig
from openai import OpenAI
from outcome import Outcome

OF_THE_CALL = {"request_options", "timeout", "extra_headers", "extra_query", "extra_body", "authorization", "config"}
"""How a call is made, not what it asks of the far side."""


def asked_by(*calls: Callable[..., Any]) -> set[str]:
    return {name for call in calls for name in inspect.signature(call).parameters} - OF_THE_CALL


def main() -> None:
    outcome = Outcome()
    fish, openai, cartesia = FishAudio(api_key="k"), OpenAI(api_key="k"), Cartesia(api_key="k").tts
    eleven, deepgram = ElevenLabs(api_key="k").text_to_speech, DeepgramClient(api_key="k").speak
    speech = {
        "Fish": asked_by(fish.tts.convert) | set(TTSConfig.model_fields) | set(Prosody.model_fields),
        "OpenAI": asked_by(openai.audio.speech.create),
        "ElevenLabs": asked_by(eleven.convert, eleven.stream_with_timestamps, eleven.convert_realtime)
        | set(VoiceSettings.model_fields),
        "Cartesia": asked_by(cartesia.bytes, cartesia.generate, cartesia.sse)
        | set(GenerationRequestParam.__annotations__)
        | set(GenerationConfigParam.__annotations__),
        "Deepgram": asked_by(
            deepgram.v1.audio.generate, deepgram.v1.connect, deepgram.v2.audio.generate, deepgram.v2.connect
        ),
    }
    outcome.note(**{protocol: sorted(names) for protocol, names in speech.items()})
    outcome.tell()


if __name__ == "__main__":
    main()
