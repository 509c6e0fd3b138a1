"""Dialogues: each turn in its own voice, in order, one stream; however the text comes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime.protocol import events
from realtime.protocol.turns import MAX_WAITING_FLUSHES
from realtime.text.speakers import SpeakerSplitter
from tests.session_talk import Talk

DIALOGUE = "<|speaker:0|>Hello there, Ben. <|speaker:1|>Hello, Anna. How are you?<|speaker:0|>Fine!"


def cast(talk: Talk) -> list[tuple[str | None, str]]:
    """(voice, text) of all that the engine was asked to say."""
    voice, said = None, []
    for event in talk.events:
        if isinstance(event, events.UseVoice):
            voice = event.name
        elif isinstance(event, events.Speak):
            said.append((voice, event.text))
    return said


def spoken(*pieces: str) -> Talk:
    talk = Talk()
    talk.start(reference_id=["anna", "ben"], format="pcm")
    for piece in pieces:
        talk.send("text", text=piece)
    talk.send("stop")
    talk.run()
    return talk


def test_each_turn_is_spoken_in_its_own_voice() -> None:
    talk = spoken(DIALOGUE)
    assert cast(talk) == [
        ("anna", "Hello there, Ben."),
        ("ben", "Hello, Anna."),
        ("ben", "How are you?"),
        ("anna", "Fine!"),
    ]


@settings(max_examples=30)
@given(st.lists(st.integers(0, len(DIALOGUE)), max_size=10))
def test_how_the_text_was_cut_never_matters(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(DIALOGUE)]
    talk = spoken(*(DIALOGUE[a:b] for a, b in itertools.pairwise(edges)))
    assert cast(talk) == cast(spoken(DIALOGUE))


def test_the_dialogue_is_one_stream() -> None:
    talk = spoken(DIALOGUE)
    assert [begin.new_stream for begin in talk.of(events.Begin)] == [True, False, False]
    assert len(talk.of(events.CloseStream)) == 1
    assert [reply["reason"] for reply in talk.named("finish")] == ["stop"]
    assert not talk.named("flushed")


def test_a_flush_in_a_later_turn_is_answered_in_its_place() -> None:
    talk = spoken("<|speaker:1|>One. ")
    talk = Talk()
    talk.start(reference_id=["anna", "ben"], format="pcm")
    talk.send("text", text="<|speaker:0|>One. <|speaker:1|>Two.")
    talk.send("flush")
    talk.send("stop")
    talk.run()
    assert [reply["seq"] for reply in talk.named("flushed")] == [1]
    last_audio = max(i for i, reply in enumerate(talk.replies) if reply["event"] == "audio")
    assert talk.replies[last_audio + 1]["event"] == "flushed"


def test_a_speaker_without_a_voice_is_an_error() -> None:
    talk = spoken("<|speaker:0|>One. <|speaker:2|>Two.")
    assert "speaker:2" in talk.replies[-1]["message"]
    assert talk.replies[-1]["code"] == "bad_request"


def test_barge_in_returns_the_text_of_turns_to_come() -> None:
    talk = Talk()
    talk.start(reference_id=["anna", "ben"], format="pcm")
    talk.send("text", text=DIALOGUE)
    talk.send("cancel", played_ms=0)
    (cancelled,) = talk.named("cancelled")
    for words in ("Hello there", "How are you?", "Fine!"):
        assert words in cancelled["remaining_text"]
    talk.send("text", text="Anew.")
    talk.send("stop")
    talk.run()
    assert cast(talk)[-1][1] == "Anew."
    assert talk.replies[-1]["reason"] == "stop"


@pytest.mark.parametrize("text", ["a < b", "<|speak", "<|speaker:1", "<", "<|speaker:x|>", "<b>bold</b>"])
def test_what_is_no_tag_is_text(text: str) -> None:
    splitter = SpeakerSplitter()
    assert "".join(said for _, said in splitter.feed(text) + splitter.flush()) == text


def test_flushes_may_wait_for_their_turn_up_to_a_limit_that_what_is_answered_or_dropped_gives_back() -> None:
    talk = Talk()
    talk.start(reference_id=["anna", "ben"])

    def fill() -> None:
        talk.send("text", text="<|speaker:0|>Hello there, Ben. <|speaker:1|>Hello, Anna.")
        for _ in range(MAX_WAITING_FLUSHES):
            talk.send("flush")
        assert talk.named("finish") == []

    fill()
    talk.run()
    assert len(talk.named("flushed")) == MAX_WAITING_FLUSHES
    fill()
    talk.send("cancel")
    fill()
    talk.send("flush")
    assert talk.named("finish")[0]["reason"] == "error"
