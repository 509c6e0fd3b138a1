"""Deepgram's socket: what its clients rely on."""

from __future__ import annotations

from typing import Any

import pytest

from realtime.errors import BadRequest, Internal
from realtime.protocol.deepgram.messages import SpeechBody
from realtime.protocol.deepgram.request import socket_request, speech_request
from realtime.protocol.deepgram.socket import DeepgramSocket
from tests.dialect_talk import LIMITS, DialectTalk, new_context

FLUSH, CLEAR, CLOSE = {"type": "Flush"}, {"type": "Clear"}, {"type": "Close"}
SENTENCE = "Hello there, how are you? "


def socket(**query: str) -> DialectTalk:
    request = socket_request({"model": "anna"} | query)
    return DialectTalk(lambda now: DeepgramSocket(new_context, request, LIMITS, request_id="r1", model="anna", now=now))


def speak(text: str) -> dict[str, Any]:
    return {"type": "Speak", "text": text}


def said(talk: DialectTalk) -> list[Any]:
    """Everything behind the first message: sound as it is, messages by their type and number."""
    first, *rest = talk.heard
    assert first["type"] == "Metadata"
    return [item if isinstance(item, bytes) else (item["type"], item["sequence_id"]) for item in rest]


def test_the_socket_tells_its_request_and_model_first() -> None:
    talk = socket()
    assert talk.heard == [
        {"type": "Metadata", "request_id": "r1", "model_name": "anna", "model_version": "1", "model_uuid": "r1"}
    ]


def test_turns_follow_one_another_and_each_flush_is_answered_once() -> None:
    talk = socket()
    talk.send(*(speak(word + " ") for word in "Hello there.".split()), FLUSH)
    talk.run()
    talk.send(speak("Bye"), FLUSH, FLUSH)
    talk.run()
    hello, bye = b"0:Hello there.", b"1:Bye"
    assert said(talk) == [hello, hello, ("Flushed", 0), bye, bye, ("Flushed", 1), ("Flushed", 2)]


def test_a_flush_of_nothing_is_answered_before_and_after_speech() -> None:
    talk = socket()
    talk.send(FLUSH)
    assert said(talk) == [("Flushed", 0)]


def test_clear_is_answered_at_once_and_nothing_old_follows() -> None:
    talk = socket()
    talk.send(speak(SENTENCE * 3), FLUSH)
    talk.make()
    talk.deliver()
    talk.send(CLEAR)
    talk.run()
    assert said(talk)[1:] == [("Cleared", 0)]
    talk.send(speak("Something new."), FLUSH)
    talk.run()
    assert said(talk)[2:] == [b"0:Something new.", b"0:Something new.", ("Flushed", 1)]


def test_clear_of_nothing_is_answered() -> None:
    talk = socket()
    talk.send(CLEAR)
    assert said(talk) == [("Cleared", 0)]


def test_close_lets_the_rest_be_spoken() -> None:
    talk = socket()
    talk.send(speak("No full stop"), CLOSE)
    talk.run()
    assert talk.heard[1:3] == [b"0:No full stop"] * 2
    assert talk.shut is not None
    assert talk.shut.code == 1000


def test_close_without_speech_closes() -> None:
    talk = socket()
    talk.send(CLOSE)
    assert talk.shut is not None
    assert talk.shut.code == 1000


def test_a_model_that_is_not_there_is_told_and_spoken_by_another() -> None:
    talk = socket(model="aura-2-thalia-en")
    talk.send(speak("Hello there."), FLUSH)
    talk.run()
    warning = talk.maps[1]
    assert (warning["type"], warning["code"]) == ("Warning", "UNKNOWN_VOICE")
    assert "aura-2-thalia-en" in warning["description"]
    assert b"0:Hello there." in talk.heard


@pytest.mark.parametrize("bad", ["{", "[]", '{"type": "Sing"}', '{"type": "Speak"}', '{"text": "Hi"}'])
def test_a_message_that_is_none_ends_the_socket_with_an_error(bad: str) -> None:
    talk = socket()
    talk.send(bad)
    assert talk.maps[-1]["type"] == "Error"
    assert talk.maps[-1]["code"] == "DATA-0000"
    assert talk.shut is not None
    assert talk.shut.code == 1007


def test_a_failed_stream_ends_in_an_error_and_a_close() -> None:
    talk = socket()
    talk.send(speak("x" * 3_000))
    talk.run()
    assert talk.maps[-1]["type"] == "Error"
    assert talk.shut is not None
    assert talk.shut.code == 1011


def test_the_end_of_the_server_is_said() -> None:
    talk = socket()
    talk.send(speak(SENTENCE))
    talk.dialect.give_up(Internal("a fault of the server"), 1011, talk.now)
    talk.pump()
    assert talk.maps[-1] == {"type": "Error", "code": "NET-0000", "description": "a fault of the server"}


def test_a_drain_ends_the_stream_with_what_it_has() -> None:
    talk = socket()
    talk.send(speak("No full stop"))
    talk.dialect.drain(talk.now)
    talk.pump()
    talk.run()
    assert talk.heard[1:3] == [b"0:No full stop"] * 2
    assert talk.shut is not None


def test_a_silent_socket_is_closed_after_the_idle_limit_though_its_stream_is_open() -> None:
    talk = socket()
    talk.send(speak(SENTENCE), FLUSH)
    talk.run()
    talk.wait(LIMITS.idle_s - 1)
    assert talk.shut is None
    talk.wait(1)
    assert talk.shut is not None
    assert talk.shut.code == 1000


@pytest.mark.parametrize(
    ("query", "form", "rate_hz"),
    [
        ({}, "pcm", 24_000),
        ({"encoding": "mulaw"}, "mulaw", 8_000),
        ({"encoding": "alaw", "sample_rate": "16000"}, "alaw", 16_000),
        ({"encoding": "linear16", "sample_rate": "48000", "container": "none", "speed": "1.5"}, "pcm", 48_000),
    ],
)
def test_encodings_and_rates(query: dict[str, str], form: str, rate_hz: int) -> None:
    output = socket_request(query).output
    assert (output.format, output.sample_rate_hz) == (form, rate_hz)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoding", "mp3"),
        ("sample_rate", "11025"),
        ("container", "wav"),
        ("speed", "1.6"),
        ("speed", "fast"),
        ("expressivity", "2"),
    ],
)
def test_a_bad_parameter_is_named(name: str, value: str) -> None:
    with pytest.raises(BadRequest, match=name):
        socket_request({name: value})


@pytest.mark.parametrize(
    ("query", "form", "rate_hz"),
    [
        ({}, "mp3", 22_050),
        ({"encoding": "linear16"}, "wav", 24_000),
        ({"encoding": "linear16", "container": "none", "sample_rate": "8000"}, "pcm", 8_000),
        ({"encoding": "mulaw"}, "wav_mulaw", 8_000),
        ({"encoding": "alaw", "container": "none"}, "alaw", 8_000),
        ({"encoding": "opus", "bit_rate": "64000"}, "opus", None),
        ({"encoding": "flac", "sample_rate": "16000"}, "flac", 16_000),
        ({"encoding": "aac"}, "aac", 24_000),
    ],
)
def test_formats_over_http(query: dict[str, str], form: str, rate_hz: int | None) -> None:
    output = speech_request(SpeechBody("Hi."), query).output
    assert (output.format, output.sample_rate_hz) == (form, rate_hz)


@pytest.mark.parametrize(
    ("body", "query", "named"),
    [
        (SpeechBody(), {}, "text"),
        (SpeechBody("Hi.", "http://example.com"), {}, "url"),
        (SpeechBody("Hi."), {"encoding": "tape"}, "encoding"),
        (SpeechBody("Hi."), {"encoding": "opus", "container": "wav"}, "container"),
        (SpeechBody("Hi."), {"callback": "http://example.com"}, "callback"),
        (SpeechBody("Hi."), {"bit_rate": "9"}, "bit_rate"),
        (SpeechBody("Hi."), {"bit_rate": "²"}, "bit_rate"),
        (SpeechBody("Hi."), {"encoding": "flac", "bit_rate": "48000"}, "bit_rate"),
    ],
)
def test_bad_requests_over_http_name_the_field(body: SpeechBody, query: dict[str, str], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        speech_request(body, query)
