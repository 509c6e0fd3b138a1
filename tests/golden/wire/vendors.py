"""Whole conversations in the vendors' protocols, message by message, as they are on the wire.

    python -m tests.golden.wire.vendors        writes <name>.json anew (a change there is a wire change)

In the JSON a binary message is {"$hex": "..."} and the end {"$close": code}. The engine is played by hand: it makes all
it was asked for after each step that says "engine".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from realtime.protocol.cartesia.socket import CartesiaSocket
from realtime.protocol.deepgram.flux import FluxSocket
from realtime.protocol.deepgram.request import socket_request as deepgram_request
from realtime.protocol.deepgram.socket import DeepgramSocket
from realtime.protocol.dialect import Dialect, Shut
from realtime.protocol.elevenlabs.multi import MultiStream
from realtime.protocol.elevenlabs.request import socket_settings
from realtime.protocol.elevenlabs.single import SingleStream
from realtime.protocol.events import Finished
from realtime.protocol.hooks.jambonz import JambonzSocket
from realtime.protocol.hooks.jambonz import socket_request as jambonz_request
from realtime.protocol.openai.realtime import RealtimeSocket
from realtime.protocol.openai.session import Session
from tests.dialect_talk import LIMITS, DialectTalk, new_context

__all__ = ["CONVERSATIONS", "FOLDER", "conversation"]

FOLDER = Path(__file__).parent
ENGINE = "engine"
"""The engine makes and delivers everything."""
ENGINE_ONE_TURN = "turn"
"""The engine works until the stream under way is closed."""
SOME = "some"
"""The engine makes one unit, of which one chunk arrives."""

Step = dict[str, Any] | str


def _elevenlabs_multi(now: float) -> Dialect:
    settings = socket_settings("anna", {"output_format": "pcm_24000", "sync_alignment": "true"})
    return MultiStream(new_context, settings, LIMITS, now)


def _elevenlabs_single(now: float) -> Dialect:
    return SingleStream(new_context, socket_settings("anna", {}), LIMITS, now)


def _cartesia(now: float) -> Dialect:
    return CartesiaSocket(new_context, LIMITS, "3-9f2c", now)


def _deepgram(now: float) -> Dialect:
    request = deepgram_request({"model": "aura-2-thalia-en", "encoding": "mulaw"})
    return DeepgramSocket(new_context, request, LIMITS, request_id="3-9f2c", model="aura-2-thalia-en", now=now)


def _flux(now: float) -> Dialect:
    request = deepgram_request({"model": "anna", "encoding": "linear16"})
    return FluxSocket(new_context, request, LIMITS, request_id="3-9f2c", model="anna", now=now)


def _jambonz(now: float) -> Dialect:
    return JambonzSocket(new_context, jambonz_request({"voice": "anna", "sampleRate": "8000"}), LIMITS, now)


def _cartesia_asks(context_id: str, transcript: str, **fields: Any) -> dict[str, Any]:
    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
    voice = {"mode": "id", "id": "anna"}
    asked = {"context_id": context_id, "model_id": "sonic-3", "transcript": transcript, "voice": voice}
    return asked | {"output_format": output, "language": "en"} | fields


def _openai_realtime(now: float) -> Dialect:
    return RealtimeSocket(
        new_context,
        Session("anna", "anna"),
        lambda name: "ben" if name == "ben" else "anna",
        LIMITS,
        session_id="3-9f2c",
        model="kingfisher",
        now=now,
    )


def _openai_item(text: str) -> dict[str, Any]:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"type": "conversation.item.create", "item": item}


CONVERSATIONS: dict[str, tuple[Callable[[float], Dialect], list[Step]]] = {
    "elevenlabs_multi": (
        _elevenlabs_multi,
        [
            {"text": " ", "context_id": "c1", "voice_settings": {"stability": 0.5, "speed": 1.0}},
            {"text": "Hello there. ", "context_id": "c1", "flush": True},
            ENGINE,
            {"text": "", "context_id": "c1"},
            {"context_id": "c1", "close_context": True},
            ENGINE,
            {"text": "Words that nobody hears to their end. And more of them. ", "context_id": "c2"},
            {"context_id": "c2", "close_context": True},
            SOME,
            {"context_id": "c2", "close_context": True},
            {"text": " ", "context_id": "c3", "voice_settings": {"speed": 5}},
            {"close_socket": True},
        ],
    ),
    "elevenlabs_single": (
        _elevenlabs_single,
        [
            {"text": " ", "voice_settings": {"stability": 0.5}, "generation_config": {"chunk_length_schedule": [50]}},
            {"text": "Hello there. ", "try_trigger_generation": True},
            {"text": ""},
            ENGINE,
        ],
    ),
    "cartesia": (
        _cartesia,
        [
            _cartesia_asks("c1", "Hello there. ", **{"continue": True}),
            _cartesia_asks("c1", "", **{"continue": True, "flush": True}),
            ENGINE,
            _cartesia_asks("c1", "Bye.", **{"continue": False}),
            ENGINE,
            _cartesia_asks("c2", "Words that nobody hears to their end. ", **{"continue": True, "flush": True}),
            SOME,
            {"context_id": "c2", "cancel": True},
            _cartesia_asks("c3", "Hello.", output_format={"container": "wav"}),
        ],
    ),
    "deepgram": (
        _deepgram,
        [
            {"type": "Speak", "text": "Hello there."},
            {"type": "Flush"},
            ENGINE,
            {"type": "Speak", "text": "Words that nobody hears to their end."},
            {"type": "Flush"},
            SOME,
            {"type": "Clear"},
            {"type": "Speak", "text": "Bye."},
            {"type": "Close"},
            ENGINE,
        ],
    ),
    "deepgram_flux": (
        _flux,
        [
            {"type": "Speak", "text": "Hello there."},
            {"type": "Flush"},
            {"type": "Speak", "text": "Words that nobody hears to their end. And more."},
            {"type": "Flush"},
            ENGINE_ONE_TURN,
            SOME,
            {"type": "Interrupt", "playback_offset": {"type": "time_ms", "value": 1200}},
            ENGINE,
            {"type": "Configure", "speed": 1.2},
            {"type": "Configure", "speed": 9},
            {"type": "Speak", "text": "Bye."},
            {"type": "Close"},
            ENGINE,
        ],
    ),
    "openai_realtime": (
        _openai_realtime,
        [
            {
                "type": "session.update",
                "session": {
                    "type": "realtime",
                    "audio": {"output": {"voice": "ben", "format": {"type": "audio/pcmu"}}},
                },
            },
            _openai_item("Hello there. How are you?"),
            {"type": "response.create"},
            ENGINE,
            _openai_item("Words that nobody hears to their end."),
            {"type": "response.create", "response": {"voice": "anna"}},
            SOME,
            {"type": "response.cancel"},
            {
                "type": "conversation.item.truncate",
                "item_id": "item_3-9f2c_6",
                "content_index": 0,
                "audio_end_ms": 99_999,
            },
            ENGINE,
            {"type": "response.create", "event_id": "e7"},
        ],
    ),
    "jambonz": (
        _jambonz,
        [{"type": "stream", "text": "Hello there."}, {"type": "flush"}, ENGINE, {"type": "stop"}],
    ),
}


def conversation(name: str) -> list[dict[str, Any]]:
    """Who said what, in order."""
    make, steps = CONVERSATIONS[name]
    talk = DialectTalk(make)
    told: list[dict[str, Any]] = []
    heard = 0
    for step in ["", *steps]:
        if isinstance(step, dict):
            told.append({"from_client": step})
            talk.send(step)
        elif step == ENGINE:
            talk.run()
        elif step == ENGINE_ONE_TURN:
            finished = _finished(talk)
            while _finished(talk) == finished and (talk.deliver() or talk.make()):
                pass
        elif step == SOME:
            talk.make()
            talk.deliver()
        told += [{"from_server": _readable(item)} for item in talk.heard[heard:]]
        heard = len(talk.heard)
    return told


def _finished(talk: DialectTalk) -> int:
    return sum(isinstance(event, Finished) for _, event in talk.asked)


def _readable(item: Any) -> Any:
    if isinstance(item, Shut):
        return {"$close": item.code}
    return {"$hex": item.hex()} if isinstance(item, bytes) else item


if __name__ == "__main__":
    for name in CONVERSATIONS:
        (FOLDER / f"{name}.json").write_text(json.dumps(conversation(name), indent=1, ensure_ascii=False) + "\n")
