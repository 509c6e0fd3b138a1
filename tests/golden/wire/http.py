"""Bodies of Fish's and OpenAI's HTTP routes as they are on the wire.

python -m tests.golden.wire.http        writes http.json anew (a change there is a wire change)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from realtime.audio.chunk import AudioChunk
from realtime.errors import BadKey, BadRequest, Overloaded
from realtime.protocol.fish import http as fish
from realtime.protocol.fish.timestamps import StreamTimes
from realtime.protocol.fish.voices import Page, builtin_entity, entity, page_of
from realtime.protocol.openai import speech as openai
from realtime.protocol.replies import Audio, Finish, WordTiming
from realtime.voices.record import VoiceRecord

__all__ = ["PATH", "document"]

PATH = Path(__file__).parent / "http.json"

AUDIO = Audio(
    AudioChunk(53.333, b"\x00\x01\xff\x7f"),
    85.25,
    utterance=1,
    seq=0,
    pts_ms=0.0,
    unit=0,
    text="Hello there.",
    timings=(WordTiming("Hello", 0.0, 53.3),),
)
FINISH = Finish(None, "", 1910.75, 12, 12, 800.0, None)
RECORD = VoiceRecord(
    id="0a803e0f6eefb126caba347771d3d17b",
    title="Mine",
    transcript="What the clip says.",
    codes=bytes(40),
    codebooks=10,
    description="A voice.",
    tags=("calm",),
    created_at="2026-12-01T10:00:00.000Z",
    updated_at="2026-12-01T10:00:00.000Z",
)
REFUSALS = (
    (BadRequest("format 'mp4' is not supported"), 400),
    (BadKey("the API key is not known"), 401),
    (Overloaded("no slot within 10 s"), 503),
)


def document() -> dict[str, Any]:
    entities = [entity(RECORD), builtin_entity("willow", "")]
    return {
        "fish, a voice": entity(RECORD),
        "fish, a page of voices": page_of(entities, Page(10, 1, "", frozenset(), "", "")),
        "fish, errors": [fish.error_body(*refusal) for refusal in REFUSALS],
        "fish, an event with timestamps": fish.timed_line(AUDIO, StreamTimes()).decode(),
        "openai, events": [
            openai.event_line(openai.sound_event(AUDIO)).decode(),
            openai.event_line(openai.done_event(FINISH)).decode(),
        ],
        "openai, errors": [openai.error_body(*refusal) for refusal in REFUSALS],
        "openai, a model": openai.model_entry("tts-1"),
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(document(), indent=1, ensure_ascii=False) + "\n")
