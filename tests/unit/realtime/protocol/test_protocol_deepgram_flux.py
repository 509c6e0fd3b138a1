"""Deepgram's second socket: turns, interruptions and what was heard."""

from __future__ import annotations

from typing import Any

import pytest

from realtime.protocol.deepgram.flux import MAX_WAITING_CHARS, FluxSocket
from realtime.protocol.deepgram.request import socket_request
from tests.dialect_talk import LIMITS, MS_PER_CHAR, DialectTalk, new_context

FLUSH, CLOSE, INTERRUPT = {"type": "Flush"}, {"type": "Close"}, {"type": "Interrupt"}
TWO = "Some words. And some more."


def socket() -> DialectTalk:
    request = socket_request({"model": "anna"})
    return DialectTalk(lambda now: FluxSocket(new_context, request, LIMITS, request_id="r", model="anna", now=now))


def speak(text: str) -> dict[str, Any]:
    return {"type": "Speak", "text": text}


def at(ms: float) -> dict[str, Any]:
    return INTERRUPT | {"playback_offset": {"type": "time_ms", "value": ms}}


def kinds(talk: DialectTalk) -> list[str]:
    return [item["type"] if isinstance(item, dict) else type(item).__name__ for item in talk.heard]


def test_a_turn_is_begun_sounded_and_accounted_for() -> None:
    talk = socket()
    talk.send(speak("Hello "), speak("there"), FLUSH)
    talk.run()
    assert kinds(talk) == ["Connected", "SpeechStarted", "bytes", "bytes", "Flushed", "SpeechMetadata"]
    metadata = talk.maps[-1]
    assert metadata["speech_id"] == "r-1"
    assert metadata["input_character_count"] == len("Hello there")
    assert metadata["audio_duration_ms"] == round(len("Hello there") * MS_PER_CHAR)


def test_later_turns_wait_for_the_one_that_is_spoken() -> None:
    talk = socket()
    talk.send(speak("One."), FLUSH, speak("Two."), FLUSH, speak("Three"))
    assert talk.spoken() == ["One."]
    talk.run()
    assert talk.spoken() == ["One.", "Two."]
    assert [m["speech_id"] for m in talk.maps if m["type"] == "Flushed"] == ["r-1", "r-2"]
    talk.send(FLUSH)
    talk.run()
    assert talk.spoken() == ["One.", "Two.", "Three"]


def test_an_interruption_tells_what_was_heard_counted_over_the_session() -> None:
    talk = socket()
    talk.send(speak("One turn."), FLUSH)
    talk.run()
    first_ms = len("One turn.") * MS_PER_CHAR
    talk.send(speak(TWO), FLUSH)
    talk.make()
    talk.deliver(3)
    talk.send(at(first_ms + len("Some words.") * MS_PER_CHAR))
    interrupted = talk.maps[-1]
    assert interrupted["type"] == "SpeechInterrupted"
    assert (interrupted["text_spoken"], interrupted["text_remaining"]) == ("Some words.", "And some more.")
    assert interrupted["audio_played_ms"] == len("Some words.") * MS_PER_CHAR
    assert interrupted["metadata"]["speech_id"] == "r-2"


def test_nothing_of_an_interrupted_turn_follows_and_the_next_one_speaks() -> None:
    talk = socket()
    talk.send(speak(TWO), FLUSH, speak("Never begun."), FLUSH)
    talk.make()
    talk.deliver()
    talk.send(INTERRUPT)
    assert "text_spoken" not in talk.maps[-1]
    before = len(talk.heard)
    talk.send(speak("Fresh."), FLUSH)
    talk.run()
    assert kinds(talk)[before:] == ["SpeechStarted", "bytes", "bytes", "Flushed", "SpeechMetadata"]
    assert talk.heard[before + 1] == b"0:Fresh."


def test_an_interruption_of_nothing_is_a_warning() -> None:
    talk = socket()
    talk.send(INTERRUPT)
    assert talk.maps[-1]["type"] == "Warning"


@pytest.mark.parametrize(("value", "played_ms"), [(-100, 0), (1e9, len("Some words.") * MS_PER_CHAR)])
def test_a_position_outside_the_sound_is_clamped(value: float, played_ms: float) -> None:
    talk = socket()
    talk.send(speak(TWO), FLUSH)
    talk.make()
    talk.deliver(3)
    talk.send(at(value))
    assert talk.maps[-1]["audio_played_ms"] == played_ms


def test_a_speed_holds_from_the_next_turn_and_a_bad_one_is_named() -> None:
    from realtime.protocol.events import Begin

    talk = socket()
    talk.send(speak("One."), FLUSH, {"type": "Configure", "speed": 1.25}, {"type": "Configure", "speed": 9})
    assert talk.maps[-2] == {"type": "ConfigureSuccess", "applied": {"speed": 1.25}}
    assert (talk.maps[-1]["code"], talk.maps[-1]["value"]) == ("SPEED_OUT_OF_RANGE", 9)
    talk.run()
    talk.send(speak("Two."), FLUSH)
    assert [event.output.speed for _, event in talk.asked if isinstance(event, Begin)] == [1.0, 1.25]


def test_close_lets_all_turns_finish_and_tells_the_sum() -> None:
    talk = socket()
    talk.send(speak("One."), FLUSH, speak("Two"), CLOSE, speak("Too late."))
    talk.run()
    assert talk.spoken() == ["One.", "Two"]
    total = talk.maps[-1]
    assert total["type"] == "SessionMetadata"
    assert total["total_input_character_count"] == len("One.Two")
    assert total["total_audio_duration_ms"] == len("One.Two") * MS_PER_CHAR
    assert talk.shut is not None
    assert talk.shut.code == 1000


def test_text_that_waits_is_bounded() -> None:
    talk = socket()
    talk.send(speak("One."), FLUSH)
    for _ in range(MAX_WAITING_CHARS // 1_000 + 1):
        talk.send(speak("word " * 200))
    assert talk.maps[-1]["type"] == "Error"
    assert talk.shut is not None
    assert talk.shut.code == 1008


def test_a_drain_ends_the_turn_and_begins_no_other() -> None:
    talk = socket()
    talk.send(speak("One."), FLUSH, speak("Two."), FLUSH)
    talk.dialect.drain(talk.now)
    talk.pump()
    talk.run()
    assert talk.spoken() == ["One."]
    assert talk.shut is not None
    assert talk.shut.code == 1012
