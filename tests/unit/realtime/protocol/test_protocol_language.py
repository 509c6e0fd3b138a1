"""Whose rules read a text: the request's language, else that of the voice that speaks it, else English."""

from __future__ import annotations

from typing import Any

import pytest

from realtime.errors import BadRequest
from realtime.protocol import events
from realtime.protocol.cartesia.messages import SpeechBody as CartesiaBody
from realtime.protocol.cartesia.request import socket_request as cartesia_request
from realtime.protocol.context import Context
from realtime.protocol.elevenlabs.messages import ClientMessage
from realtime.protocol.elevenlabs.messages import SpeechBody as ElevenBody
from realtime.protocol.elevenlabs.request import request_of, socket_settings, speech_request
from realtime.protocol.events import Reference
from realtime.protocol.fish.request import parse_request
from realtime.protocol.hooks.jambonz import socket_request as jambonz_request
from realtime.protocol.request import StreamRequest

LANGUAGES = {"anna": "", "benita": "es-MX", "claire": "fr"}


def spoken(request: StreamRequest) -> list[str]:
    context = Context(
        max_stream_chars=1_000,
        voices=LANGUAGES,
        voice="anna",
        new_seed=lambda: 7,
        language_of_voice=LANGUAGES.__getitem__,
    )
    context.start(request, 0.0)
    context.stop()
    said = []
    while made := context.events():
        for event in made:
            if isinstance(event, events.Speak):
                said.append(event.text)
                context.unit_done(event.utterance, event.unit, is_cut=False)
            elif isinstance(event, events.End):
                context.utterance_done(event.utterance)
    return said


@pytest.mark.parametrize(("voice", "read"), [("anna", "one"), ("benita", "uno"), ("claire", "un")])
def test_a_text_is_read_in_the_language_of_its_voice(voice: str, read: str) -> None:
    assert spoken(StreamRequest("Take 1.", voice=voice)) == [f"Take {read}."]


@pytest.mark.parametrize("voice", LANGUAGES)
def test_the_request_decides_where_it_says_a_language(voice: str) -> None:
    assert spoken(StreamRequest("Take 1.", voice=voice, language="fr")) == ["Take un."]
    assert spoken(StreamRequest("Take 1.", voice=voice, language="de")) == ["Take 1."]


def test_each_turn_of_a_dialogue_is_read_in_its_own_voices_language() -> None:
    text = "<|speaker:0|>Take 1. <|speaker:1|>Toma 1. <|speaker:2|>Prends 1."
    assert spoken(StreamRequest(text, speakers=tuple(LANGUAGES))) == ["Take one.", "Toma uno.", "Prends un."]


def test_a_clips_text_is_english_unless_the_request_says_otherwise() -> None:
    clip = Reference(b"a clip", "words")
    assert spoken(StreamRequest("Take 1.", reference=clip)) == ["Take one."]
    assert spoken(StreamRequest("Take 1.", reference=clip, language="es")) == ["Take uno."]


def test_nothing_is_read_where_the_request_wants_it_as_written() -> None:
    assert spoken(StreamRequest("Take 1.", voice="benita", normalize=False)) == ["Take 1."]


def test_sentences_end_as_the_language_has_them() -> None:
    text = "Hoy viene el Sr. García con p. ej. Ana."
    assert spoken(StreamRequest(text, voice="benita")) == ["Hoy viene el señor García con por ejemplo Ana."]


def requests(language: str) -> dict[str, StreamRequest]:
    """The same wish on each wire that can say it."""
    settings = socket_settings("anna", {"language_code": language})
    return {
        "fish": parse_request({"language": language}),
        "elevenlabs socket": request_of(settings, ClientMessage(text="x")),
        "elevenlabs http": speech_request("anna", ElevenBody("x", language_code=language), {}),
        "cartesia": cartesia_request(CartesiaBody(transcript="x", language=language)),
        "jambonz": jambonz_request({"language": language}),
    }


def test_every_wire_that_has_a_language_hands_it_on() -> None:
    assert {name: request.language for name, request in requests("es-MX").items()} == dict.fromkeys(
        requests("es-MX"), "es-MX"
    )


@pytest.mark.parametrize(
    ("field", "ask"),
    [
        ("language", lambda tag: parse_request({"language": tag})),
        ("language_code", lambda tag: socket_settings("anna", {"language_code": tag})),
        ("language_code", lambda tag: speech_request("anna", ElevenBody("x", language_code=tag), {})),
        ("language", lambda tag: cartesia_request(CartesiaBody(transcript="x", language=tag))),
        ("language", lambda tag: jambonz_request({"language": tag})),
    ],
    ids=["fish", "elevenlabs socket", "elevenlabs http", "cartesia", "jambonz"],
)
def test_what_is_no_tag_is_refused_by_name(field: str, ask: Any) -> None:
    with pytest.raises(BadRequest, match=f"^{field} is 'Spanish!'"):
        ask("Spanish!")
