"""How long the pause around a unit may be, by what the client wrote there."""

from __future__ import annotations

import pytest

from realtime.audio.pauses import AS_SPOKEN, Pauses
from realtime.protocol.events import Speak
from realtime.protocol.pauses import (
    CLAUSE_MS,
    PARAGRAPH_MS,
    SENTENCE_MS,
    WITHIN_CLAUSE_MS,
    pauses_around,
)
from realtime.protocol.utterance import Utterance
from realtime.text.normalizer import normalize
from realtime.text.segmenter import Segmenter


@pytest.mark.parametrize(
    ("spoken", "after_ms"),
    [
        ("Good morning.", SENTENCE_MS),
        ('"Really?"', SENTENCE_MS),
        ("Well...", SENTENCE_MS),
        ("今天很好。", SENTENCE_MS),
        ("When you come home,", CLAUSE_MS),
        ("one;", CLAUSE_MS),
        ("今天，", CLAUSE_MS),
        ("Please wait a moment while I", WITHIN_CLAUSE_MS),
    ],
)
def test_the_pause_is_that_of_the_mark_at_the_end(spoken: str, after_ms: float) -> None:
    assert pauses_around(spoken, 0) == Pauses(0.0, after_ms)


def test_a_new_line_is_a_sentence_and_an_empty_one_a_paragraph() -> None:
    assert [pauses_around("Next", breaks).before_ms for breaks in range(4)] == [
        0.0, SENTENCE_MS, PARAGRAPH_MS, PARAGRAPH_MS,
    ]  # fmt: skip


@pytest.mark.parametrize("spoken", ["[long pause] Well.", "<break time='1s'/> Well.", "Well. [sighs]"])
def test_cues_that_reach_the_model_keep_their_silence(spoken: str) -> None:
    assert pauses_around(spoken, 0) == AS_SPOKEN


TEXT = "Thank you, that is all I need to know.\n\nA new paragraph begins here!\n- And one more line"


@pytest.mark.parametrize("size", [1, 3, len(TEXT)])
def test_the_pauses_of_a_text_do_not_depend_on_its_messages(size: int) -> None:
    utterance = Utterance(1, Segmenter(first_clause_chars=10), normalize)
    pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    events = [event for piece in pieces for event in utterance.feed(piece)] + utterance.end()
    assert [event.pauses for event in events if isinstance(event, Speak)] == [
        Pauses(0.0, CLAUSE_MS),
        Pauses(0.0, SENTENCE_MS),
        Pauses(PARAGRAPH_MS, SENTENCE_MS),
        Pauses(SENTENCE_MS, WITHIN_CLAUSE_MS),
    ]
