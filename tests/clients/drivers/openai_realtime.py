"""The OpenAI SDK's Realtime connection: items and responses, a cancel, a truncation, errors.

The SDK makes `wss` out of an https address and `ws` out of an http one.
"""

from __future__ import annotations

import base64
from typing import Any

from openai import OpenAI
from outcome import LONG, TEXTS, Outcome

outcome = Outcome()
client = OpenAI(api_key="k", base_url=outcome.url + "/v1")

with client.realtime.connect(model="gpt-realtime") as connection:

    def hear(kind: str) -> Any:
        """Up to the first event of this kind; the sound on the way is kept."""
        while (event := connection.recv()).type != kind:
            if event.type == "response.output_audio.delta":
                sound.extend(base64.b64decode(event.delta))
        return event

    def ask(text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        connection.response.create()

    sound = bytearray()
    hear("session.created")
    output = {"voice": "willow", "format": {"type": "audio/pcm", "rate": 24_000}}
    connection.session.update(session={"type": "realtime", "audio": {"output": output}})
    outcome.note(voice=hear("session.updated").session.audio.output.voice)

    ask(TEXTS[0])
    done = hear("response.done")
    outcome.turn(bytes(sound), "pcm24000")
    outcome.note(status=done.response.status, transcript=done.response.output[0].content[0].transcript)

    ask(LONG)
    item_id = hear("response.output_audio.delta").item_id
    connection.response.cancel()
    outcome.note(cancelled=hear("response.done").response.status)
    connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=20)
    outcome.note(truncated_ms=hear("conversation.item.truncated").audio_end_ms)
    connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=10_000_000)
    outcome.note(clamped_ms=hear("conversation.item.truncated").audio_end_ms)

    sound.clear()
    ask(TEXTS[1])  # the turn after the barge-in, with nothing stale in front
    hear("response.done")
    outcome.turn(bytes(sound), "pcm24000")

    connection.response.cancel()
    errors = [hear("error").error]
    connection.session.update(session={"type": "realtime", "audio": {"output": {"speed": 9.0}}})
    errors.append(hear("error").error)
    outcome.note(errors=[[error.type, error.message] for error in errors])
outcome.tell()
