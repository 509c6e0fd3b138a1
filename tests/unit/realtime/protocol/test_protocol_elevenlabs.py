"""ElevenLabs' two sockets: what their clients rely on."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from realtime.errors import BadRequest, Internal
from realtime.protocol import events
from realtime.protocol.elevenlabs.alignment import Alignment
from realtime.protocol.elevenlabs.bodies import timed_sound
from realtime.protocol.elevenlabs.multi import MAX_CONTEXTS, MultiStream
from realtime.protocol.elevenlabs.request import FORMATS, output_of, socket_settings
from realtime.protocol.elevenlabs.single import SingleStream
from realtime.protocol.replies import WordTiming
from tests.dialect_talk import LIMITS, DialectTalk, new_context

SENTENCE = "Hello there, how are you? "


def multi(**query: str) -> DialectTalk:
    settings = socket_settings("anna", {"output_format": "pcm_16000"} | query)
    return DialectTalk(lambda now: MultiStream(new_context, settings, LIMITS, now))


def single(**query: str) -> DialectTalk:
    settings = socket_settings("anna", query)
    return DialectTalk(lambda now: SingleStream(new_context, settings, LIMITS, now))


def sound(talk: DialectTalk, key: str | None = None) -> list[str]:
    """The chunks' contents, of one context or of all."""
    return [
        base64.b64decode(message["audio"]).decode()
        for message in talk.maps
        if message.get("audio") and (key is None or message["contextId"] == key)
    ]


def finals(talk: DialectTalk) -> list[str]:
    return [message["contextId"] for message in talk.maps if message.get("isFinal")]


# ---- multi-stream-input --------------------------------------------------------------------------------


def test_contexts_speak_side_by_side_under_their_names() -> None:
    talk = multi()
    talk.send({"text": " ", "context_id": "a"}, {"text": " ", "context_id": "b"})
    talk.send({"text": "One sentence. ", "context_id": "a"}, {"text": "Another one. ", "context_id": "b"})
    talk.send({"context_id": "b", "close_context": True}, {"context_id": "a", "close_context": True})
    talk.run()
    assert sound(talk, "a") == ["0:One sentence."] * 2
    assert sound(talk, "b") == ["0:Another one."] * 2
    assert sorted(finals(talk)) == ["a", "b"]
    assert sorted(talk.left) == ["a", "b"]
    assert talk.shut is None


def test_a_close_lets_the_rest_be_spoken() -> None:
    talk = multi()
    talk.send({"text": "No full stop", "context_id": "a"}, {"context_id": "a", "close_context": True})
    talk.run()
    assert sound(talk) == ["0:No full stop"] * 2
    assert finals(talk) == ["a"]


def test_a_second_close_drops_what_was_not_heard() -> None:
    talk = multi()
    talk.send({"text": SENTENCE * 3, "context_id": "a"}, {"context_id": "a", "close_context": True})
    talk.make()
    talk.deliver()
    before = len(sound(talk))
    talk.send({"context_id": "a", "close_context": True})
    talk.run()
    assert before == 1
    assert len(sound(talk)) == before
    assert finals(talk) == ["a"]
    assert talk.left == ["a"]


def test_new_text_under_the_name_of_a_closing_context_begins_afresh() -> None:
    talk = multi()
    talk.send({"text": SENTENCE, "context_id": "a"}, {"context_id": "a", "close_context": True})
    talk.send({"text": "Something new. ", "context_id": "a"}, {"context_id": "a", "close_context": True})
    talk.run()
    assert sound(talk) == ["0:Something new."] * 2
    assert finals(talk) == ["a", "a"]


@pytest.mark.parametrize(
    "message",
    [
        {"context_id": "nobody", "close_context": True},
        {"context_id": "nobody", "flush": True},
        {"context_id": "nobody", "text": ""},
        {"text": ""},
    ],
)
def test_a_context_that_is_not_there_is_let_pass(message: dict[str, Any]) -> None:
    talk = multi()
    talk.send(message)
    talk.run()
    assert (talk.heard, talk.asked) == ([], [])


def test_a_context_may_be_named_in_either_spelling() -> None:
    talk = multi()
    talk.send({"text": "One. ", "context_id": "a"}, {"contextId": "a", "close_context": True})
    talk.run()
    assert finals(talk) == ["a"]


def test_a_flush_speaks_what_is_held() -> None:
    talk = multi()
    talk.send({"text": "half a", "context_id": "a"})
    assert talk.spoken("a") == []
    talk.send({"context_id": "a", "flush": True})
    talk.send({"text": " phrase", "context_id": "a", "flush": True})
    talk.run()
    assert talk.spoken("a") == ["half a", "phrase"]


def test_auto_mode_speaks_each_phrase_at_once() -> None:
    talk = multi(auto_mode="true")
    talk.send({"text": "A whole phrase. ", "context_id": "a"})
    assert talk.spoken("a") == ["A whole phrase."]


def test_twenty_contexts_fit_and_too_many_are_refused_alone() -> None:
    talk = multi()
    talk.send(*({"text": "Hi there all. ", "context_id": str(index)} for index in range(MAX_CONTEXTS + 1)))
    assert MAX_CONTEXTS >= 20
    (refusal,) = talk.maps
    assert (refusal["contextId"], refusal["error"]) == (str(MAX_CONTEXTS), "too_many_concurrent_requests")
    talk.send({"context_id": "0", "close_context": True}, {"context_id": "0", "close_context": True})
    talk.send({"text": "Now there is room. ", "context_id": "new"}, {"context_id": "new", "close_context": True})
    talk.run()
    assert sound(talk, "new") == ["0:Now there is room."] * 2


def test_an_idle_context_is_closed_and_an_empty_text_keeps_it() -> None:
    talk = multi(inactivity_timeout="30")
    talk.send({"text": "held", "context_id": "a"}, {"text": "held", "context_id": "b"})
    talk.wait(20)
    talk.send({"text": "", "context_id": "b"})
    talk.wait(20)
    talk.run()
    assert sound(talk) == ["0:held"] * 2
    assert finals(talk) == ["a"]


def test_the_end_of_the_socket_lets_every_context_finish() -> None:
    talk = multi()
    talk.send({"text": SENTENCE, "context_id": "a"}, {"text": SENTENCE, "context_id": "b"}, {"close_socket": True})
    assert talk.shut is None
    talk.run()
    assert sorted(finals(talk)) == ["a", "b"]
    assert talk.shut is not None
    assert talk.shut.code == 1000


def test_what_would_change_the_sound_is_refused_for_its_context_alone() -> None:
    talk = multi()
    talk.send({"text": " ", "context_id": "a", "voice_settings": {"speed": 1.3}})
    talk.send({"text": " ", "context_id": "b", "voice_settings": {"stability": 0.4, "speed": 1.0}})
    talk.send({"text": "Fine. ", "context_id": "b", "flush": True})
    talk.run()
    assert talk.maps[0]["contextId"] == "a"
    assert "speed" in talk.maps[0]["message"]
    assert sound(talk, "b")


def test_a_failure_is_said_and_ends_its_context_only() -> None:
    talk = multi()
    talk.send({"text": "x" * 3_000, "context_id": "a"}, {"text": SENTENCE, "context_id": "b", "flush": True})
    talk.run()
    error, final = [message for message in talk.maps if message["contextId"] == "a"]
    assert error["error"] == "max_character_limit_exceeded"
    assert final["isFinal"]
    assert sound(talk, "b")


def test_a_message_that_is_none_ends_the_socket_with_an_error() -> None:
    for bad in ("{", "[]", '{"context_id": "%s"}' % ("n" * 257), '{"text": 5}', "x" * 100_001):
        talk = multi()
        talk.send({"text": SENTENCE, "context_id": "a"})
        talk.send(bad)
        talk.run()
        assert talk.maps[-1]["error"]
        assert talk.shut is not None
        assert talk.shut.code in (1007, 1009)
        assert talk.left == ["a"]


def test_nothing_follows_the_end_of_the_server() -> None:
    talk = multi()
    talk.send({"text": SENTENCE, "context_id": "a"})
    talk.dialect.give_up(Internal("a fault of the server"), 1011, talk.now)
    talk.pump()
    assert [message.get("error") for message in talk.maps] == ["internal", None]
    talk.send({"text": SENTENCE, "context_id": "b"})
    talk.run()
    assert talk.heard[-1] is talk.shut


def test_a_drain_waits_for_what_is_spoken() -> None:
    talk = multi()
    talk.send({"text": SENTENCE, "context_id": "a"})
    talk.dialect.drain(talk.now)
    talk.pump()
    assert talk.shut is None
    talk.send({"context_id": "a", "close_context": True})
    talk.run()
    assert sound(talk) == ["0:Hello there, how are you?"] * 2
    assert talk.shut is not None
    assert talk.shut.code == 1012


# ---- stream-input --------------------------------------------------------------------------------------


def test_one_stream_from_the_first_text_to_the_empty_one() -> None:
    talk = single()
    talk.send({"text": " ", "voice_settings": {"stability": 0.5}, "generation_config": {"chunk_length_schedule": [50]}})
    talk.send({"text": "Hello there. ", "try_trigger_generation": True}, {"text": "Bye"}, {"text": ""})
    talk.run()
    assert sound(talk) == ["0:Hello there."] * 2 + ["1:Bye"] * 2
    assert [message["isFinal"] for message in talk.maps] == [False] * 6 + [True]  # each unit's times behind it
    assert talk.shut is not None
    assert talk.shut.code == 1000


def test_the_voice_is_warm_before_the_first_text() -> None:
    assert single().asked == [("", events.UseVoice("anna", None))]


def test_a_stream_nobody_feeds_is_ended_with_the_vendors_code() -> None:
    talk = single(inactivity_timeout="60")
    talk.send({"text": " "})
    talk.wait(59)
    assert talk.shut is None
    talk.wait(1)
    assert talk.maps[-1]["error"] == "input_timeout_exceeded"
    assert talk.shut is not None
    assert talk.shut.code == 1008


def test_a_failed_stream_ends_in_an_error_and_never_in_a_short_success() -> None:
    talk = single()
    talk.send({"text": SENTENCE}, {"text": "x" * 3_000})
    talk.run()
    assert talk.maps[-1]["error"] == "max_character_limit_exceeded"
    assert not any(message.get("isFinal") for message in talk.maps)
    assert talk.shut is not None
    assert talk.shut.code == 1008


# ---- settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("output_format", "pcm_11025"),
        ("inactivity_timeout", "0"),
        ("inactivity_timeout", "181"),
        ("inactivity_timeout", "nan"),
        ("auto_mode", "perhaps"),
        ("enable_ssml_parsing", "true"),
        ("apply_text_normalization", "maybe"),
    ],
)
def test_a_bad_parameter_is_named(name: str, value: str) -> None:
    with pytest.raises(BadRequest, match=name):
        socket_settings("anna", {name: value})


def test_telephone_formats_are_offered() -> None:
    assert output_of("ulaw_8000").format == "mulaw"
    assert output_of("alaw_8000").sample_rate_hz == 8_000
    assert output_of(None) == output_of("mp3_44100_128")
    assert (output_of("mp3_22050_32").sample_rate_hz, output_of("mp3_22050_32").mp3_bitrate) == (22_050, 32_000)
    assert {"pcm_22050", "wav_22050", "opus_48000_192"} <= FORMATS.keys()


def test_the_speed_reaches_the_sound() -> None:
    talk = multi()
    talk.send({"text": " ", "context_id": "a", "voice_settings": {"speed": 0.8}})
    (begin,) = [event for _, event in talk.asked if isinstance(event, events.Begin)]
    assert begin.output.speed == 0.8


# ---- alignment -----------------------------------------------------------------------------------------

WORDS = (WordTiming("Hi", 0.0, 200.0), WordTiming("you", 300.0, 600.0))


def test_synced_alignments_count_from_the_begin_of_the_context() -> None:
    alignment = Alignment(is_synced=True)
    assert alignment.of(()) is None
    first = alignment.of(WORDS[:1])
    second = alignment.of(WORDS[1:])
    assert first is not None
    assert second is not None
    assert first["chars"] == ["H", "i", " "]
    assert first["charStartTimesMs"] == [0, 100, 200]
    assert second["charStartTimesMs"] == [300, 400, 500, 600]
    assert second["charDurationsMs"] == [100, 100, 100, 0]


def test_unsynced_alignments_add_up_to_the_synced_ones() -> None:
    """What a client finds that adds the end of each alignment to its clock."""
    alignment, clock_ms, starts = Alignment(is_synced=False), 0, []
    for word in WORDS:
        part = alignment.of((word,))
        assert part is not None
        starts += [clock_ms + start_ms for start_ms in part["charStartTimesMs"]]
        clock_ms += part["charStartTimesMs"][-1] + part["charDurationsMs"][-1]
    whole = Alignment(is_synced=True).of(WORDS)
    assert whole is not None
    assert starts == whole["charStartTimesMs"]


def test_estimates_say_so_on_the_sockets_and_over_http() -> None:
    guessed = (WordTiming("Hi", 0.0, 200.0, is_estimate=True),)
    for words, mark in ((WORDS, None), (guessed, True)):
        on_the_socket, over_http = Alignment(is_synced=True).of(words), timed_sound(b"", words)["alignment"]
        assert on_the_socket is not None
        assert on_the_socket.get("isEstimate") is over_http.get("is_estimate") is mark


def test_every_word_is_aligned_in_order_over_a_whole_context() -> None:
    for synced in ("true", "false"):
        talk = multi(sync_alignment=synced)
        text = "Hello there, how are you? I am fine, thank you. "
        talk.send({"text": text, "context_id": "a"}, {"context_id": "a", "close_context": True})
        talk.run()
        parts = [message["alignment"] for message in talk.maps if message.get("alignment")]
        assert "".join(char for part in parts for char in part["chars"]).split() == text.split()
        assert all(part["charStartTimesMs"] == sorted(part["charStartTimesMs"]) for part in parts)
        assert min(start for part in parts for start in part["charStartTimesMs"]) >= 0
