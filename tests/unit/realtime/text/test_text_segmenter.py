"""The segmenter by example: where sentences end, what is held back, what vanishes."""

from __future__ import annotations

import pytest

from realtime.text.segmenter import MIN_UNIT_CHARS, Piece, Segmenter


def texts(units: list[Piece]) -> list[str]:
    return [unit.text for unit in units]


def units_of(*pieces: str, max_chars: int = 200) -> list[str]:
    segmenter = Segmenter(max_chars)
    units = [unit for piece in pieces for unit in segmenter.feed(piece)]
    return texts(units + segmenter.flush())


def collapsed(text: str) -> str:
    return " ".join(text.split())


def test_a_dot_is_a_boundary_only_when_what_follows_has_been_seen() -> None:
    units = units_of("The invoice is $4", ".75, due at 3 p", ".m. Ask Dr", ". Rivera about v2", ".10.1.")
    assert units == ["The invoice is $4.75,", "due at 3 p.m.", "Ask Dr. Rivera about v2.10.1."]


WHOLE = [
    "First we met J. Smith and then we went home.",
    "The books of J.R.R. Tolkien were there as well.",
    "It is a matter for the U.S. Senate to decide.",
    "It opened at 9 a.m. on a very cold Monday.",
    "Your next visit is at 3 p.m. Monday with us.",
    "The call is at 3 p.m. Eastern as you asked.",
    "Visit cities, e.g. Paris or Rome or Oslo.",
    "See www.a.example/x.html?y=1 for more of it.",
    "We had No. 5 and Fig. 3 before Sept. 4 that year.",
    "Well... maybe not today.",
    "Well… maybe not today.",
    "It costs 1.234,56 or 3,5 in all of them.",
    "The chapter is on pages 1200–1300 of it.",
    '"Are you really sure?" he asked.',
]


@pytest.mark.parametrize("sentence", WHOLE)
def test_dots_and_marks_inside_a_sentence_do_not_end_it(sentence: str) -> None:
    lead = "Here we go then."  # so that the first unit's clause rule does not apply
    assert units_of(f"{lead} {sentence} Then more.") == [lead, sentence, "Then more."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It closed at 9 a.m. Then it opened.", ["It closed at 9 a.m.", "Then it opened."]),
        ("I said no. That is final.", ["I said no.", "That is final."]),
        ('He said "go away now." Then he left.', ['He said "go away now."', "Then he left."]),
        ("你好，今天天气很好。我们去公园吧！", ["你好，今天天气很好。", "我们去公园吧！"]),
        ("क्या आप ठीक हैं। हाँ मैं ठीक हूँ।", ["क्या आप ठीक हैं।", "हाँ मैं ठीक हूँ।"]),
        ("هل أنت بخير؟ نعم أنا بخير", ["هل أنت بخير؟", "نعم أنا بخير"]),
        ("First line here\nSecond line here", ["First line here", "Second line here"]),
        ("Ok\n1. The first of them\n2. The second", ["Ok\n1. The first of them", "2. The second"]),
        ("Wow! That is great news. Yes?", ["Wow! That is great news.", "Yes?"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert units_of(text) == expected


def test_a_question_is_spoken_as_soon_as_a_space_follows() -> None:
    assert texts(Segmenter().feed("How are you today? ")) == ["How are you today?"]


def test_a_line_is_spoken_as_soon_as_it_ends() -> None:
    assert texts(Segmenter().feed("Here is the list.\n")) == ["Here is the list."]


def test_the_first_unit_may_end_at_a_clause_and_later_ones_may_not() -> None:
    text = "I can certainly help you with that, and it is quick, really. Then, after a while, we can go on."
    assert units_of(text) == [
        "I can certainly help you with that,",
        "and it is quick, really.",
        "Then, after a while, we can go on.",
    ]


def test_the_first_clause_is_out_before_the_sentence_ends() -> None:
    assert texts(Segmenter().feed("I can certainly help you with that, and")) == ["I can certainly help you with that,"]


def test_a_very_short_sentence_takes_the_next_along_unless_flushed() -> None:
    assert units_of("No. That will not work.") == ["No. That will not work."]
    segmenter = Segmenter()
    assert segmenter.feed("No. ") == []
    assert texts(segmenter.flush()) == ["No."]
    assert len("No.") < MIN_UNIT_CHARS


@pytest.mark.parametrize(
    "pieces",
    [
        ["First part. <break ", 'time="1s"/> second ', "[soft", " voice] third."],
        ["Go on <emph. asis>now. Then [a. b. c", ". d] we go."],
    ],
)
def test_tags_are_never_cut_wherever_the_messages_were(pieces: list[str]) -> None:
    assert units_of(*pieces) == units_of("".join(pieces))
    for unit in units_of(*pieces):
        assert unit.count("[") == unit.count("]")
        assert unit.count("<") == unit.count(">")


def test_a_tag_that_crosses_the_limit_begins_the_next_unit() -> None:
    tag = "[" + "x" * 30 + "]"
    units = units_of("word " * 18 + tag + " end", max_chars=100)
    assert units == [("word " * 18).strip(), f"{tag} end"]


def test_a_tag_that_crosses_the_limit_does_not_take_what_says_nothing_along() -> None:
    segmenter = Segmenter(100)
    tag = "[" + 90 * "x" + "]"
    units = segmenter.feed(10 * "\0" + tag + " Then it goes on.") + segmenter.flush()
    assert units[0].text.startswith(tag)
    assert all(len(unit.text) <= 100 for unit in units)


ACCENT = "\u0301"


@pytest.mark.parametrize("chars", [60, 97, 98, 99, 150])
@pytest.mark.parametrize("accents", [1, 5, 20])
def test_marks_behind_a_tag_neither_cut_it_nor_depend_on_the_messages(chars: int, accents: int) -> None:
    tag = f"[{'x' * chars}]"
    text = f"{tag}{ACCENT * accents}{'a' * 60}"
    units = units_of(text, max_chars=100)
    assert units == units_of(*text, max_chars=100)
    assert "".join(units) == text
    assert any(tag in unit for unit in units)


def test_a_tag_that_never_closes_does_not_hold_the_text_for_ever() -> None:
    assert Segmenter().feed("Go [on and " + "on and on. " * 30) != []


def test_pieces_without_letters_join_the_next_unit_or_vanish() -> None:
    segmenter = Segmenter()
    for piece in ("…", " — ", "🙂", "()", "\x00", "\ud800"):
        assert [*segmenter.feed(piece), *segmenter.flush()] == []
    assert texts(segmenter.feed("We open at nine.") + segmenter.flush()) == ["We open at nine."]
    assert segmenter.held == ""


def test_the_last_words_never_open_the_next_turn() -> None:
    segmenter = Segmenter()
    assert texts(segmenter.feed("Your code is seven nine tango") + segmenter.flush()) == [
        "Your code is seven nine tango"
    ]
    assert texts(segmenter.feed("Goodbye.") + segmenter.flush()) == ["Goodbye."]


def test_an_overlong_sentence_is_cut_at_its_last_clause_mark() -> None:
    first, rest = "word " * 12 + "word and then,", "more " * 18
    assert units_of("Here we go then. " + f"{first} {rest}", max_chars=100)[1] == first


def test_an_overlong_sentence_without_a_late_clause_mark_fills_the_unit() -> None:
    """A mark near the beginning would leave a stub."""
    units = units_of("Here we go then. So, " + "word " * 40, max_chars=100)
    assert len(units[1]) > 90
    assert units[1].endswith("word")


def test_a_word_longer_than_a_unit_is_cut_but_not_between_a_letter_and_its_accent() -> None:
    units = units_of("a" * 99 + "e\u0301" + "a" * 50, max_chars=100)
    assert units == ["a" * 99, "e\u0301" + "a" * 50]


def test_fifteen_hundred_words_come_out_complete_and_in_order() -> None:
    markers = [f"marker{chr(97 + i)}" for i in range(26)]
    text = " ".join(("some plain words that fill the space, one after another. " * 6) + m + "." for m in markers)
    assert len(text.split()) >= 1500
    assert collapsed(" ".join(units_of(*[text[i : i + 7] for i in range(0, len(text), 7)]))) == collapsed(text)
