"""The live dialect on its context, by example. What holds for every input is in tests/property/test_session_laws.py."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from realtime.audio.chunk import AudioChunk
from realtime.errors import Draining, EngineFault, Internal
from realtime.protocol import events
from realtime.protocol.dialect import Shut
from realtime.protocol.utterance import MAX_OPEN_FLUSHES, MAX_SPOKEN_CHARS, UNITS_AHEAD
from tests.session_talk import TTFA_PARTS, Talk


@pytest.fixture
def talk() -> Talk:
    return Talk()


def names(talk: Talk) -> list[str]:
    return [reply["event"] for reply in talk.replies]


# ---- one stream ------------------------------------------------------------


def test_the_voice_is_asked_for_at_connect_and_ready_is_said_when_it_is_warm(talk: Talk) -> None:
    assert talk.events == [events.UseVoice("anna", None)]
    assert talk.replies == []
    talk.context.warmed("anna")
    talk.pump()
    assert talk.replies == [
        {
            "event": "ready",
            "request_id": "r1",
            "voice": "anna",
            "sample_rate": 24_000,
            "frame_ms": 50.0,
            "limits": {"max_message_bytes": 1 << 20, "max_stream_chars": 10_000, "idle_s": 600.0},
        }
    ]


def test_a_turn_from_start_to_finish(talk: Talk) -> None:
    talk.start(format="pcm", temperature=0.5, top_p=0.9, seed=11, max_lead_s=2.0)
    talk.send("text", text="Hello there, ")
    talk.send("text", text="this is a sentence. ")
    talk.send("stop")
    talk.run()
    assert talk.of(events.Begin) == [
        events.Begin(1, events.OutputSpec("pcm", None, None), 0.5, 0.9, 11, 2.0, new_stream=True)
    ]
    assert talk.spoken == ["Hello there, this is a sentence."]
    assert names(talk) == ["audio", "audio", "finish"]
    assert talk.replies[-1]["reason"] == "stop"
    assert talk.replies[-1]["usage"] == {"chars": 33, "utf8_bytes": 33, "audio_ms": 1600.0}
    assert talk.of(events.Finished) == [events.Finished("stop", 0.0)]


def test_audio_is_stamped_with_its_place(talk: Talk) -> None:
    talk.start(text="Sixteen letters. ")
    talk.now += 0.25
    talk.send("stop")
    talk.run()
    first, second = talk.named("audio")
    assert first == {
        "event": "audio", "audio": b"sound", "time": 250.0, "utterance": 1, "seq": 0, "pts_ms": 0.0,
        "duration_ms": 400.0,
    }  # fmt: skip
    assert (second["seq"], second["pts_ms"]) == (1, 400.0)


def test_text_in_start_is_spoken_first(talk: Talk) -> None:
    talk.start(text="First comes this. ")
    talk.send("text", text="Then that.")
    talk.send("stop")
    assert talk.spoken == ["First comes this.", "Then that."]


def test_time_to_first_audio_runs_from_the_first_text_and_is_split(talk: Talk) -> None:
    talk.start()
    talk.now += 5.0
    talk.send("text", text="  ")
    talk.now += 1.0
    talk.send("text", text="Now it begins.")
    talk.send("stop")
    talk.now += 0.125
    talk.run()
    assert talk.replies[-1]["ttfa_ms"] == {"total": 125.0, "text": 110.0, **TTFA_PARTS}
    assert talk.of(events.Finished) == [events.Finished("stop", 125.0)]


def test_the_containers_end_is_part_of_the_stream(talk: Talk) -> None:
    talk.last_chunk = AudioChunk(5.0, b"the end")
    talk.start(text="Alpha.")
    talk.send("stop")
    talk.run()
    assert (talk.replies[-2]["audio"], talk.replies[-2]["pts_ms"]) == (b"the end", 300.0)
    assert talk.replies[-1]["usage"]["audio_ms"] == 305.0


def test_usage_counts_characters_and_bytes(talk: Talk) -> None:
    talk.start(text="Grüße. ")
    talk.send("stop")
    talk.run()
    assert talk.replies[-1]["usage"]["chars"] == 7
    assert talk.replies[-1]["usage"]["utf8_bytes"] == 9


def test_normalising_can_be_switched_off(talk: Talk) -> None:
    for normalize in (True, False):
        talk.start(text="It is **$4**.", normalize=normalize)
        talk.send("stop")
        talk.run()
    assert talk.spoken == ["It is four dollars.", "It is **$4**."]


def test_a_seed_is_drawn_if_none_is_given_and_told_on_request(talk: Talk) -> None:
    talk.send("start", request={}, debug=True)
    assert talk.of(events.Begin)[0].seed == 7
    assert talk.replies == [{"event": "log", "message": "request r1, seed 7"}]


def test_a_unit_that_was_cut_is_reported(talk: Talk) -> None:
    talk.start(text="This never stops. ")
    talk.send("flush")
    talk.context.unit_done(1, 0, is_cut=True)
    talk.pump()
    assert talk.replies[0]["code"] == "unit_too_long"
    assert "This never stops." in talk.replies[0]["message"]


# ---- nothing to say ------------------------------------------------------------


def test_units_with_nothing_to_say_make_no_sound_and_no_error(talk: Talk) -> None:
    talk.start()
    for text in ("…", " — ", "🙂"):
        talk.send("text", text=text)
        talk.send("flush")
    talk.send("text", text="We open at nine.")
    talk.send("stop")
    talk.run()
    assert talk.spoken == ["We open at nine."]
    assert [reply["seq"] for reply in talk.named("flushed")] == [1, 2, 3]
    assert talk.replies[-1]["reason"] == "stop"


@pytest.mark.parametrize(
    "messages",
    [[], [("text", ""), ("text", " \n\t"), ("flush", None)], [("flush", None), ("flush", None)]],
    ids=["nothing", "blank text", "flushes"],
)
def test_an_empty_stream_ends_like_any_other(talk: Talk, messages: list[tuple[str, str | None]]) -> None:
    talk.start()
    for event, text in messages:
        talk.send(event, **({} if text is None else {"text": text}))
    talk.send("stop")
    talk.run()
    flushes = sum(event == "flush" for event, _ in messages)
    assert names(talk) == ["flushed"] * flushes + ["finish"]
    assert talk.replies[-1]["reason"] == "stop"
    assert talk.replies[-1]["ttfa_ms"] is None


# ---- flush ------------------------------------------------------------


def test_a_flush_speaks_the_tail_and_is_answered_behind_its_sound(talk: Talk) -> None:
    talk.start()
    talk.send("text", text="Your code is seven nine tango")
    talk.send("flush")
    talk.run()
    assert talk.spoken == ["Your code is seven nine tango"]
    assert names(talk) == ["audio", "audio", "flushed"]
    assert talk.replies[-1] == {"event": "flushed", "seq": 1, "audio_ms": 1450.0}
    talk.send("text", text="Goodbye.")
    talk.send("flush")
    assert talk.spoken[1:] == ["Goodbye."]


def test_a_flush_of_nothing_is_no_sound_and_no_end(talk: Talk) -> None:
    """One start for hours, a flush too many after each turn, and never a stop."""
    talk.start()
    for turn in range(3):
        talk.send("text", text=f"This is turn {turn}. ")
        talk.send("flush")
        talk.send("flush")
        talk.run()
    assert talk.spoken == ["This is turn zero.", "This is turn one.", "This is turn two."]
    assert [reply["seq"] for reply in talk.named("flushed")] == [1, 2, 3, 4, 5, 6]
    assert not talk.named("finish")


def test_a_flush_after_every_word_does_not_make_speech_word_by_word(talk: Talk) -> None:
    talk.start()
    for word in "This is what a client does that knows tokens only. And it goes on.".split():
        talk.send("text", text=word + " ")
        talk.send("flush")
    # The first word is spoken at once, as asked; the others come as sentences while it is being said.
    assert talk.spoken == ["This", "is what a client does that knows tokens only.", "And it goes on."]
    talk.run()
    assert [reply["seq"] for reply in talk.named("flushed")] == list(range(1, 15))


def test_what_a_flush_held_back_is_spoken_when_speech_runs_out(talk: Talk) -> None:
    talk.start()
    talk.send("text", text="One moment please. ")
    talk.send("flush")
    talk.send("text", text="I am looking")
    talk.send("flush")
    assert talk.spoken == ["One moment please."]
    talk.run()
    assert talk.spoken == ["One moment please.", "I am looking"]
    assert [reply["seq"] for reply in talk.named("flushed")] == [1, 2]


def test_a_flush_at_the_end_of_a_sentence_is_never_held_back(talk: Talk) -> None:
    talk.start()
    talk.send("text", text="One moment please. ")
    talk.send("flush")
    talk.send("text", text="Here it is.")
    talk.send("flush")
    assert talk.spoken == ["One moment please.", "Here it is."]


def test_stop_speaks_what_a_flush_held_back(talk: Talk) -> None:
    talk.start()
    talk.send("text", text="One moment please. I am")
    talk.send("flush")
    talk.send("text", text=" looking")
    talk.send("flush")
    talk.send("stop")
    talk.run()
    assert " ".join(talk.spoken) == "One moment please. I am looking"
    assert [reply["seq"] for reply in talk.named("flushed")] == [1, 2]
    assert names(talk)[-1] == "finish"


@pytest.mark.parametrize(
    ("latency", "first"),
    [
        ("low", "Of course,"),
        ("balanced", "Of course, in the early morning,"),
        ("normal", "Of course, in the early morning, before anybody is up."),
    ],
)
def test_latency_is_how_much_text_the_first_sound_waits_for(talk: Talk, latency: str, first: str) -> None:
    talk.start(latency=latency)
    for word in "Of course, in the early morning, before anybody is up. Then people come.".split(" "):
        assert talk.spoken == []
        talk.send("text", text=word + " ")
        if talk.spoken:
            break
    assert talk.spoken == [first]


# ---- long texts ------------------------------------------------------------

SENTENCES = [f"This is sentence number {number} of many." for number in range(200)]


def test_a_long_text_is_cut_little_by_little_and_spoken_whole(talk: Talk) -> None:
    talk.start(text=" ".join(SENTENCES), normalize=False)
    talk.send("flush")
    talk.send("stop")
    assert UNITS_AHEAD <= len(talk.spoken) < 20
    done = 0
    while len(talk.spoken) < len(SENTENCES):
        assert 0 < len(talk.spoken) - done < 20, "never far ahead, never run dry"
        talk.make()
        talk.deliver(3)  # two chunks and the unit's end
        done += 1
    talk.run()
    assert talk.spoken == SENTENCES
    assert names(talk)[-2:] == ["flushed", "finish"]


@pytest.mark.parametrize(
    "text",
    [
        "1,234,567.89 and " * 11,
        "1-2-3-4-5-6-7-8-9 " * 10,
        "9" * 190,
        "https://a.example/" + "b_c/" * 40,
        "$999.99, " * 20,
    ],
    ids=["numbers", "ranges", "digits", "address", "amounts"],
)
def test_what_grows_when_it_is_written_out_is_said_in_pieces(talk: Talk, text: str) -> None:
    talk.start(text=text)
    talk.send("stop")
    talk.run()
    assert len(talk.spoken) > 1
    assert max(map(len, talk.spoken)) <= MAX_SPOKEN_CHARS
    talk.start(text=text)
    talk.send("cancel")
    remaining = talk.named("cancelled")[0]["remaining_text"]
    assert "".join(remaining.split()) == "".join(text.split())


@pytest.mark.parametrize("blank", ["", " "])
def test_a_unit_that_takes_long_to_say_is_not_cut_inside_a_tag(talk: Talk, blank: str) -> None:
    tags = ("<break time='1s' strength='an unsaid word'/>", "[an unsaid word, and another]")
    figures = ("7" * 30, "1234567 " * 5, "$1,234.56 " * 4)
    talk.start()
    for tag, figure in itertools.product(tags, figures):
        talk.send("text", text=f"{figure}{blank}{tag}{blank}{figure}.\n")
        talk.run()
    talk.send("stop")
    talk.run()
    assert max(map(len, talk.spoken)) <= MAX_SPOKEN_CHARS
    assert not any("unsaid" in said or "break" in said for said in talk.spoken)


def test_flushes_that_wait_are_bounded_and_those_answered_do_not_count(talk: Talk) -> None:
    talk.start()
    for _ in range(2 * MAX_OPEN_FLUSHES):
        talk.send("flush")
        talk.run()
    assert len(talk.named("flushed")) == 2 * MAX_OPEN_FLUSHES
    for _ in range(MAX_OPEN_FLUSHES):
        talk.send("flush")
    assert talk.named("finish") == []
    talk.send("flush")
    assert talk.named("finish")[0]["code"] == "too_much_text"


def test_text_that_was_not_looked_at_remains_after_a_cancel(talk: Talk) -> None:
    talk.start(text=" ".join(SENTENCES))
    talk.send("cancel")
    assert talk.replies[-1]["remaining_text"] == " ".join(SENTENCES)


def test_a_long_text_without_anything_to_say_ends_too(talk: Talk) -> None:
    talk.start(text="… " * 4_900)
    talk.send("stop")
    for _ in range(10):
        talk.wait(1)
    talk.run()
    assert names(talk) == ["finish"]


# ---- barge-in ------------------------------------------------------------


def test_a_cancel_is_answered_at_once_and_old_sound_is_dropped(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma delta. ")
    talk.send("flush")
    talk.make()
    talk.deliver()
    talk.send("cancel")
    assert talk.replies[-1]["event"] == "cancelled"
    assert talk.replies[-1]["utterance"] == 1
    talk.run()
    assert names(talk)[-1] == "cancelled"
    talk.send("text", text="Now for something new. ")
    talk.send("stop")
    talk.run()
    assert {reply["utterance"] for reply in talk.replies[2:] if reply["event"] == "audio"} == {2}
    assert [begin.new_stream for begin in talk.of(events.Begin)] == [True, False]
    assert talk.replies[-1]["event"] == "finish"


def test_cancelled_says_what_was_heard_and_what_was_not(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma delta. Epsilon zeta. And a rest")
    talk.send("flush")
    talk.make()
    talk.deliver(3)
    talk.send("cancel", played_ms=500)
    cancelled = talk.replies[-1]
    assert cancelled["spoken_text"] == "Alpha beta"
    assert cancelled["remaining_text"] == "gamma delta. Epsilon zeta. And a rest"
    assert cancelled["audio_ms"] == 1150.0


def test_a_cancel_after_stop_ends_the_stream(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma. Delta epsilon zeta.")
    talk.send("stop")
    talk.make()
    talk.send("cancel")
    talk.run()
    assert names(talk) == ["cancelled", "finish"]
    assert talk.replies[-1]["reason"] == "stop"


def test_a_cancel_that_crosses_with_the_containers_end_still_gets_its_finish(talk: Talk) -> None:
    talk.last_chunk = AudioChunk(5.0, b"the end")
    talk.start(text="Alpha beta gamma.")
    talk.send("stop")
    while not talk.of(events.CloseStream):
        talk.make()
        talk.deliver()
    talk.send("cancel")
    assert talk.replies[-1]["spoken_text"] == "Alpha beta gamma."
    talk.run()
    assert names(talk)[-2:] == ["cancelled", "finish"], "nor is the container's end heard"
    assert len(talk.of(events.Begin)) == 1, "there is nothing left to begin"


def test_a_cancel_that_crosses_with_finish_is_answered_and_harms_nothing(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma.")
    talk.send("stop")
    talk.run()
    talk.send("cancel")
    assert talk.replies[-1] == {
        "event": "cancelled", "utterance": 1, "spoken_text": "", "remaining_text": "", "audio_ms": 0.0,
    }  # fmt: skip
    talk.start(text="The next one is whole.")
    talk.send("stop")
    talk.run()
    assert talk.spoken[-1] == "The next one is whole."
    assert len(talk.named("finish")) == 2


def test_a_cancel_of_nothing_leaves_the_stream_open(talk: Talk) -> None:
    talk.start()
    talk.send("cancel")
    talk.send("text", text="Still here.")
    talk.send("stop")
    talk.run()
    assert names(talk) == ["cancelled", "audio", "audio", "finish"]


# ---- voices ------------------------------------------------------------


def test_a_start_may_name_the_voice(talk: Talk) -> None:
    talk.start(voice="ben")
    assert talk.events[1] == events.UseVoice("ben", None)


def test_a_start_without_a_voice_gets_the_sockets_own() -> None:
    talk = Talk(voice="ben")
    talk.start()
    assert talk.of(events.UseVoice) == [events.UseVoice("ben", None)] * 2


def test_an_unknown_voice_is_an_error_that_lists_the_known_ones(talk: Talk) -> None:
    talk.start(voice="carl")
    assert talk.replies[-1]["code"] == "unknown_voice"
    assert "anna, ben" in talk.replies[-1]["message"]
    assert not talk.of(events.Begin)


def test_an_unknown_reference_id_falls_back_with_a_warning(talk: Talk) -> None:
    talk.start(reference_id="933563129e564b19a115bedd57b7406a")
    assert talk.replies[-1]["code"] == "unknown_voice"
    assert talk.of(events.Begin)
    talk.send("stop")
    talk.run()
    assert talk.replies[-1]["reason"] == "stop"


def test_a_clip_is_handed_on_before_the_stream_begins(talk: Talk) -> None:
    talk.start(references=[{"audio": b"RIFF", "text": "words"}], voice="ben")
    assert talk.events[1] == events.UseVoice(None, events.Reference((b"RIFF",), "words"))
    assert isinstance(talk.events[2], events.Begin)


# ---- failures that end a stream ------------------------------------------------------------


def test_a_bad_start_is_answered_by_finish_and_the_socket_stays_usable(talk: Talk) -> None:
    talk.start(sample_rate=-1, format="pcm")
    assert talk.replies[-1]["event"] == "finish"
    assert talk.replies[-1]["reason"] == "error"
    assert talk.replies[-1]["code"] == "bad_request"
    assert "sample_rate is -1" in talk.replies[-1]["message"]
    talk.start(text="Now it works.", format="pcm")
    talk.send("stop")
    talk.run()
    assert talk.replies[-1]["reason"] == "stop"


def test_what_was_sent_before_the_client_knew_of_a_failure_is_let_pass(talk: Talk) -> None:
    talk.start(format="mp4")
    talk.send("text", text="Hello.")
    talk.send("flush")
    talk.send("stop")
    assert names(talk) == ["finish"]
    assert not talk.of(Shut)
    talk.start(text="Again.")
    talk.send("stop")
    talk.run()
    assert names(talk) == ["finish", "audio", "audio", "finish"]


def test_too_much_text_fails_the_stream_and_names_the_limit() -> None:
    talk = Talk(max_stream_chars=20)
    talk.start(text="0123456789 012345678")
    talk.send("text", text="9")
    assert talk.replies[-1]["code"] == "too_much_text"
    assert "20 characters" in talk.replies[-1]["message"]
    assert talk.of(events.Cancel) == [events.Cancel(1)]


def test_a_failure_of_the_engine_ends_the_stream_once(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma.")
    talk.send("flush")
    talk.make()
    talk.context.failed(1, EngineFault("overloaded", "no slot became free within 10 s"), talk.now)
    talk.context.failed(1, EngineFault("overloaded", "no slot became free within 10 s"), talk.now)
    talk.pump()
    talk.run()
    assert names(talk) == ["finish"]
    assert talk.replies[-1]["code"] == "overloaded"


def test_a_failure_of_an_earlier_utterance_is_of_no_interest(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma.")
    talk.send("cancel")
    talk.context.failed(1, EngineFault("internal", "late"), talk.now)
    talk.pump()
    assert names(talk) == ["cancelled"]


# ---- failures that end the socket ------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "code", "close_code"),
    [
        ([("text", {"text": "Hello."})], "bad_order", 1008),
        ([("flush", {})], "bad_order", 1008),
        ([("stop", {})], "bad_order", 1008),
        ([("start", {}), ("start", {})], "bad_order", 1008),
        ([("start", {}), ("stop", {}), ("text", {"text": "late"})], "bad_order", 1008),
        ([("start", {}), ("stop", {}), ("stop", {})], "bad_order", 1008),
        ([("start", {}), ("stop", {}), ("flush", {})], "bad_order", 1008),
        ([("start", {}), ("text", {"text": 5})], "malformed", 1007),
        ([("ping", {"id": "x" * (1 << 20)})], "too_big", 1009),
    ],
)
def test_a_broken_protocol_is_named_and_the_socket_closed(
    talk: Talk, messages: list[tuple[str, dict[str, Any]]], code: str, close_code: int
) -> None:
    for event, fields in messages:
        talk.send(event, **fields)
    assert names(talk) == ["error"]
    assert talk.replies[0]["code"] == code
    assert talk.replies[0]["request_id"] == "r1"
    shut = talk.events[-1]
    assert isinstance(shut, Shut)
    assert shut.code == close_code
    assert len(talk.of(events.Finished)) == len(talk.of(events.Begin))


def test_a_text_frame_is_answered_by_1003(talk: Talk) -> None:
    talk.send_raw("hello")
    assert talk.replies[0]["code"] == "text_frame"
    assert talk.events[-1].code == 1003  # type: ignore[union-attr]


def test_after_its_end_a_session_is_deaf_and_dumb(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma. ")
    talk.send("flush")
    talk.make()
    talk.send_raw(b"garbage")
    said, done = len(talk.replies), len(talk.events)
    talk.run()
    talk.start()
    talk.send("ping")
    talk.context.warmed("anna")
    talk.dialect.drain(talk.now)
    talk.dialect.give_up(Internal("late"), 1011, talk.now)
    talk.wait(10_000)
    assert (len(talk.replies), len(talk.events)) == (said, done)


# ---- how a session ends ------------------------------------------------------------


def one_turn(talk: Talk, *extra: str) -> None:
    talk.start(text="Alpha beta gamma. ")
    for event in extra:
        talk.send(event)
    talk.send("stop")
    talk.run()


def test_a_script_is_closed_three_seconds_after_its_finish(talk: Talk) -> None:
    one_turn(talk)
    talk.wait(2.9)
    assert not talk.of(Shut)
    talk.wait(0.2)
    assert talk.of(Shut) == [Shut(1000, "done")]


@pytest.mark.parametrize("sign", ["flush", "cancel", "ping"])
def test_an_agent_is_kept(talk: Talk, sign: str) -> None:
    one_turn(talk, sign)
    talk.wait(599)
    assert not talk.of(Shut)


def test_a_second_start_is_the_sign_of_an_agent(talk: Talk) -> None:
    one_turn(talk)
    talk.wait(2)
    one_turn(talk)
    talk.wait(599)
    assert not talk.of(Shut)


def test_an_idle_socket_is_closed_at_the_limit_but_an_open_stream_is_not_idle(talk: Talk) -> None:
    talk.start()
    talk.wait(4_000)
    assert not talk.of(Shut)
    talk.send("flush")
    talk.send("stop")
    talk.run()
    talk.wait(599)
    assert not talk.of(Shut)
    talk.wait(2)
    assert talk.of(Shut) == [Shut(1000, "idle for 600 s")]


def test_a_socket_that_never_starts_is_idle_too(talk: Talk) -> None:
    talk.wait(601)
    assert talk.of(Shut) == [Shut(1000, "idle for 600 s")]


def test_draining_closes_an_idle_session_and_lets_a_stream_finish(talk: Talk) -> None:
    idle = Talk()
    idle.dialect.drain(idle.now)
    idle.pump()
    assert idle.events[-1] == Shut(1012, "the server is shutting down")

    talk.start(text="Alpha beta gamma. ")
    talk.dialect.drain(talk.now)
    talk.pump()
    assert not talk.of(Shut)
    talk.send("stop")
    talk.run()
    assert talk.replies[-1]["reason"] == "stop"
    assert talk.events[-1] == Shut(1012, "the server is shutting down")


def test_a_stream_that_the_server_cannot_wait_for_is_told(talk: Talk) -> None:
    talk.start(text="Alpha beta gamma. ")
    talk.dialect.drain(talk.now)
    talk.dialect.give_up(Draining("no more time"), 1012, talk.now)
    talk.pump()
    assert (talk.replies[-1]["event"], talk.replies[-1]["code"]) == ("finish", "draining")
    assert [shut.code for shut in talk.of(Shut)] == [1012]


def test_an_idle_session_hears_of_the_servers_fault(talk: Talk) -> None:
    talk.dialect.give_up(Internal("the engine failed"), 1011, talk.now)
    talk.pump()
    assert talk.replies == [{"event": "error", "error": "the engine failed", "code": "internal", "request_id": "r1"}]
    assert talk.events[-1] == Shut(1011, "the engine failed")


@pytest.mark.parametrize("id_", ["a", 7, 1.5, None])
def test_ping_is_answered_with_its_id(talk: Talk, id_: Any) -> None:
    talk.send("ping", id=id_)
    assert talk.replies == [{"event": "pong", "id": id_}]
