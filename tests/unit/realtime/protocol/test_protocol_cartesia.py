"""Cartesia's socket: what its clients rely on."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from realtime.protocol import events, replies
from realtime.protocol.cartesia.messages import SpeechBody
from realtime.protocol.cartesia.replies import timestamps_message
from realtime.protocol.cartesia.request import socket_request
from realtime.protocol.cartesia.socket import FORGOTTEN_S, MAX_CONTEXTS, CartesiaSocket
from tests.dialect_talk import LIMITS, DialectTalk, new_context

SENTENCE = "Hello there, how are you? "
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}


def socket() -> DialectTalk:
    return DialectTalk(lambda now: CartesiaSocket(new_context, LIMITS, "r1", now))


def asks(context_id: str, transcript: str, **fields: Any) -> dict[str, Any]:
    voice = {"mode": "id", "id": "anna"}
    return {"context_id": context_id, "transcript": transcript, "voice": voice, "output_format": RAW} | fields


def kinds(talk: DialectTalk, key: str) -> list[str]:
    return [message["type"] for message in talk.maps if message.get("context_id") == key]


def sound(talk: DialectTalk, key: str) -> list[str]:
    return [
        base64.b64decode(message["data"]).decode()
        for message in talk.maps
        if message["type"] == "chunk" and message["context_id"] == key
    ]


def test_one_message_is_a_whole_context() -> None:
    talk = socket()
    talk.send(asks("a", "Hello there"))
    talk.run()
    assert kinds(talk, "a") == ["chunk", "chunk", "done"]
    assert sound(talk, "a") == ["0:Hello there"] * 2
    assert talk.maps[-1] == {"type": "done", "done": True, "status_code": 200, "context_id": "a"}
    assert talk.left == ["a"]


def test_continued_input_is_one_stream_however_it_was_cut() -> None:
    whole, pieces = socket(), socket()
    text = SENTENCE * 3
    whole.send(asks("a", text))
    pieces.send(*(asks("a", char, **{"continue": True}) for char in text), asks("a", "", **{"continue": False}))
    assert pieces.spoken("a") == whole.spoken("a")


@pytest.mark.parametrize("last", ["", " "])
def test_the_last_message_may_hold_nothing(last: str) -> None:
    talk = socket()
    talk.send(asks("a", "No full stop", **{"continue": True}), asks("a", last, **{"continue": False}))
    talk.run()
    assert sound(talk, "a") == ["0:No full stop"] * 2
    assert kinds(talk, "a")[-1] == "done"


def test_a_cancel_is_silence_at_once_and_without_an_answer() -> None:
    talk = socket()
    talk.send(asks("a", SENTENCE * 4, **{"continue": True}), asks("b", SENTENCE))
    talk.make()
    talk.deliver()
    talk.send({"context_id": "a", "cancel": True})
    talk.run()
    assert kinds(talk, "a") == ["chunk"]
    assert kinds(talk, "b")[-1] == "done"
    assert talk.left == ["a", "b"]


def test_a_cancel_of_nobody_is_let_pass() -> None:
    talk = socket()
    talk.send({"context_id": "a", "cancel": True})
    assert talk.heard == []


def test_a_name_is_free_again_after_a_cancel() -> None:
    talk = socket()
    talk.send(asks("a", SENTENCE * 3, **{"continue": True}), {"context_id": "a", "cancel": True})
    talk.send(asks("a", "Something new"))
    talk.run()
    assert sound(talk, "a") == ["0:Something new"] * 2


def test_each_flush_that_was_asked_for_is_answered_once_behind_its_audio() -> None:
    talk = socket()
    talk.send(asks("a", "half a", **{"continue": True, "flush": True}))
    talk.run()
    talk.send(asks("a", "", **{"continue": True, "flush": True}))
    talk.send(asks("a", " phrase"))
    talk.run()
    seen = [(message["type"], message.get("flush_id")) for message in talk.maps]
    assert seen == [
        ("chunk", 1), ("chunk", 1), ("flush_done", 1), ("flush_done", 2), ("chunk", 3), ("chunk", 3), ("done", None),
    ]  # fmt: skip


def test_no_delay_speaks_each_message_at_once_without_an_answer_to_a_flush() -> None:
    talk = socket()
    talk.send(asks("a", "A sentence.", max_buffer_delay_ms=0, **{"continue": True}))
    talk.run()
    assert kinds(talk, "a") == ["chunk", "chunk"]


def test_text_is_held_no_longer_than_the_delay() -> None:
    talk = socket()
    talk.send(asks("a", "A sentence.", max_buffer_delay_ms=2_000, **{"continue": True}))
    talk.wait(1)
    assert talk.spoken("a") == []
    talk.wait(1)
    assert talk.spoken("a") == ["A sentence."]
    talk.wait(1)
    assert len([event for _, event in talk.asked if isinstance(event, events.Mark)]) == 1


def test_a_context_nobody_continues_is_ended() -> None:
    talk = socket()
    talk.send(asks("a", "A sentence.", max_buffer_delay_ms=0, **{"continue": True}))
    talk.run()
    talk.wait(FORGOTTEN_S)
    talk.run()
    assert kinds(talk, "a")[-1] == "done"


@pytest.mark.parametrize(
    ("fields", "language", "normalizes"),
    [
        ({}, None, True),
        ({"language": "es"}, "es", True),
        ({"locale": "fr-CA", "normalization": "auto"}, "fr-CA", True),
        ({"language": "es", "normalization": "en-IN"}, "en-IN", True),
        ({"locale": "es", "normalization": "off"}, "es", False),
    ],
)
def test_how_figures_are_read(fields: dict[str, Any], language: str | None, normalizes: bool) -> None:
    request = socket_request(SpeechBody(transcript=SENTENCE, **fields))
    assert (request.language, request.normalize) == (language, normalizes)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"normalization": "??"}, "normalization"),
        ({"output_format": {"container": "wav"}}, "container"),
        ({"output_format": RAW | {"encoding": "pcm_u8"}}, "encoding"),
        ({"output_format": RAW | {"sample_rate": 11_025}}, "sample_rate"),
        ({"voice": {"mode": "embedding"}}, "voice.mode"),
        ({"generation_config": {"speed": 1.6}}, "speed"),
        ({"generation_config": {"volume": 0.4}}, "volume"),
        ({"generation_config": {"emotion": "angry"}}, "emotion"),
        ({"pronunciation_dict_id": "d"}, "pronunciation_dict_id"),
        ({"add_phoneme_timestamps": True}, "add_phoneme_timestamps"),
        ({"max_buffer_delay_ms": 9_000}, "max_buffer_delay_ms"),
        ({"speed": "fast"}, "speed"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_and_the_socket_lives(fields: dict[str, Any], named: str) -> None:
    talk = socket()
    talk.send(asks("a", SENTENCE, **fields), asks("b", "Fine."))
    talk.run()
    error = talk.maps[0]
    assert (error["type"], error["context_id"], error["status_code"], error["done"]) == ("error", "a", 400, True)
    assert named in error["message"]
    assert kinds(talk, "b") == ["chunk", "chunk", "done"]


def test_speed_and_volume_reach_the_sound() -> None:
    talk = socket()
    talk.send(asks("a", SENTENCE, generation_config={"speed": 1.5, "volume": 2.0}))
    (begin,) = [event for _, event in talk.asked if isinstance(event, events.Begin)]
    assert begin.output.speed == 1.5
    assert begin.output.volume_db == pytest.approx(6.02, abs=0.01)


def test_the_defaults_that_clients_write_out_are_taken() -> None:
    talk = socket()
    config = {"speed": 1.0, "volume": 1.0, "emotion": "neutral"}
    talk.send(asks("a", "Fine.", generation_config=config, speed="normal", language="en", model_id="sonic-3"))
    talk.send(asks("b", "Fine.", voice="anna", generation_config=None, duration=None))
    talk.run()
    assert kinds(talk, "a")[-1] == kinds(talk, "b")[-1] == "done"


def test_text_behind_the_last_message_fails_its_context() -> None:
    talk = socket()
    talk.send(asks("a", SENTENCE), asks("a", "More. "))
    talk.run()
    assert talk.maps[-1]["error_code"] == "bad_order"
    assert talk.left == ["a"]


def test_a_failed_stream_ends_in_an_error_and_never_in_done() -> None:
    talk = socket()
    talk.send(asks("a", "x" * 3_000))
    talk.run()
    assert kinds(talk, "a") == ["error"]


def test_a_message_that_is_none_is_answered_and_disturbs_nobody() -> None:
    talk = socket()
    talk.send(asks("a", SENTENCE), "{", '{"context_id": 5}', json.dumps(asks("n" * 257, "Hi.")))
    talk.run()
    assert [message["error_code"] for message in talk.maps if message["type"] == "error"] == ["malformed"] * 3
    assert sum("context_id" not in message for message in talk.maps) == 3
    assert kinds(talk, "a")[-1] == "done"


def test_contexts_are_limited_and_those_over_it_fail_alone() -> None:
    talk = socket()
    talk.send(*(asks(str(index), SENTENCE, **{"continue": True}) for index in range(MAX_CONTEXTS + 1)))
    (error,) = talk.maps
    assert (error["context_id"], error["error_code"], error["status_code"]) == (
        str(MAX_CONTEXTS),
        "concurrency_limited",
        429,
    )


def test_word_times_are_seconds_of_the_context() -> None:
    words = (replies.WordTiming("Hi", 0.0, 200.0), replies.WordTiming("you", 300.0, 600.4))
    times = timestamps_message(words)["word_timestamps"]
    assert times == {"words": ["Hi", "you"], "start": [0.0, 0.3], "end": [0.2, 0.6]}
    guessed = timestamps_message((replies.WordTiming("Hi", 0.0, 200.0, is_estimate=True),))["word_timestamps"]
    assert guessed["is_estimate"] is True


def test_a_voice_that_is_warm_too_late_for_its_stream_is_of_no_interest() -> None:
    """A context of nothing is over before its slot is warm, and both come in one delivery: the socket failed of it."""
    talk = socket()
    talk.send(asks("a", ""))
    context = talk.dialect.context("a")
    assert context is not None
    context.utterance_done(1)
    context.stream_closed(1, None, talk.now)
    context.warmed("anna")
    talk.pump()
    assert kinds(talk, "a") == ["done"]
    assert talk.left == ["a"]
    assert talk.shut is None


def test_words_come_with_times_only_where_they_were_asked_for() -> None:
    talk = socket()
    talk.send(asks("a", SENTENCE, add_timestamps=True), asks("b", SENTENCE))
    talk.run()
    (times,) = [message["word_timestamps"] for message in talk.maps if message["type"] == "timestamps"]
    assert times["words"] == SENTENCE.split()
    assert times["start"] == sorted(times["start"])
    assert "timestamps" not in kinds(talk, "b")
