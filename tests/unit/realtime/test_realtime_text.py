"""Segmenter and normaliser: text split anywhere gives the same units, and what is written becomes what is said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.text.normalizer import normalize
from realtime.text.segmenter import MAX_TAG_CHARS, MIN_UNIT_CHARS, Segmenter, is_speakable

GOLDEN = Path(__file__).parents[2] / "golden" / "normalizer.tsv"


def units_of(*pieces: str, max_chars: int = 200) -> list[str]:
    segmenter = Segmenter(max_chars)
    units = [unit for piece in pieces for unit in segmenter.feed(piece)]
    return units + segmenter.flush()


def collapsed(text: str) -> str:
    return " ".join(text.split())


# ---- segmenter -----------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=9)
marks = st.sampled_from(
    ["", ".", ",", "!", "?", "...", ";", ":", "\n", '."', ")", " —", "。", " Dr.", " 3.5", " [x]", "<b>"]
)
texts = st.lists(st.tuples(words, marks), min_size=1, max_size=40).map(lambda ps: " ".join(w + m for w, m in ps))


@given(texts, st.randoms(use_true_random=False))
def test_units_depend_on_the_text_alone_never_on_the_cuts(text: str, rng: random.Random) -> None:
    pieces, rest = [], text
    while rest:
        size = rng.randint(1, 12)
        pieces.append(rest[:size])
        rest = rest[size:]
    assert units_of(*pieces) == units_of(text)


@given(texts)
def test_units_together_are_the_text(text: str) -> None:
    assert collapsed(" ".join(units_of(text))) == collapsed(text)


@given(st.text(max_size=400), st.integers(100, 300))
def test_any_string_gives_speakable_units_within_the_limit(text: str, max_chars: int) -> None:
    for unit in units_of(text, max_chars=max_chars):
        assert is_speakable(unit)
        assert len(unit) <= max(max_chars, MAX_TAG_CHARS)


def test_a_dot_is_a_boundary_only_when_what_follows_has_been_seen() -> None:
    units = units_of("The invoice is $4", ".75, due at 3 p", ".m. Ask Dr", ". Rivera about v2", ".10.1.")
    assert units == ["The invoice is $4.75,", "due at 3 p.m.", "Ask Dr. Rivera about v2.10.1."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "First we met J. Smith and then we went home. Second one.",
            ["First we met J. Smith and then we went home.", "Second one."],
        ),
        ("Well... maybe not today. We shall see.", ["Well... maybe not today.", "We shall see."]),
        ('He said "go away now." Then he left.', ['He said "go away now."', "Then he left."]),
        ("你好，今天天气很好。我们去公园吧！", ["你好，今天天气很好。", "我们去公园吧！"]),
        ("First line here\nSecond line here", ["First line here", "Second line here"]),
        ("See www.a.example/x.html for more. Thanks a lot.", ["See www.a.example/x.html for more.", "Thanks a lot."]),
        ("It opened at 9 a.m. on Monday. It closed.", ["It opened at 9 a.m. on Monday.", "It closed."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert units_of(text) == expected


def test_the_first_unit_may_end_at_a_clause_and_later_ones_may_not() -> None:
    text = "I can certainly help you with that, and it is quick, really. Then, after a while, we can go on."
    assert units_of(text) == [
        "I can certainly help you with that,",
        "and it is quick, really.",
        "Then, after a while, we can go on.",
    ]


def test_the_first_clause_is_out_before_the_sentence_ends() -> None:
    assert Segmenter().feed("I can certainly help you with that, and") == ["I can certainly help you with that,"]


def test_a_very_short_sentence_takes_the_next_along_unless_flushed() -> None:
    assert units_of("No. That will not work.") == ["No. That will not work."]
    segmenter = Segmenter()
    assert segmenter.feed("No. ") == []
    assert segmenter.flush() == ["No."]
    assert len("No.") < MIN_UNIT_CHARS


def test_tags_are_never_cut_wherever_the_messages_were() -> None:
    pieces = ["First part. <break ", 'time="1s"/> second ', "[soft", " voice] third."]
    assert units_of(*pieces) == units_of("".join(pieces))
    assert all(unit.count("[") == unit.count("]") for unit in units_of(*pieces))


def test_a_tag_that_never_closes_does_not_hold_the_text_for_ever() -> None:
    segmenter = Segmenter()
    assert segmenter.feed("Go [on and " + "on and on. " * 30) != []


def test_pieces_without_letters_join_the_next_unit_or_vanish() -> None:
    segmenter = Segmenter()
    assert [*segmenter.feed("…"), *segmenter.flush()] == []
    assert [*segmenter.feed(" — "), *segmenter.flush()] == []
    assert [*segmenter.feed("🙂"), *segmenter.flush()] == []
    assert [*segmenter.feed("We open at nine."), *segmenter.flush()] == ["We open at nine."]
    assert segmenter.held == ""


def test_an_overlong_sentence_is_cut_at_a_clause_or_a_space() -> None:
    text = "word " * 30 + "and then, " + "more " * 40
    for unit in units_of(text, max_chars=100):
        assert len(unit) <= 100
        assert not unit.startswith("ord")
    assert collapsed(" ".join(units_of(text, max_chars=100))) == collapsed(text)


def test_fifteen_hundred_words_come_out_complete_and_in_order() -> None:
    markers = [f"marker{chr(97 + i)}" for i in range(26)]
    text = " ".join(("some plain words that fill the space, one after another. " * 5) + m + "." for m in markers)
    assert collapsed(" ".join(units_of(*[text[i : i + 7] for i in range(0, len(text), 7)]))) == collapsed(text)


# ---- normaliser ----------------------------------------------------------------------------------------

CASES = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("# written")]


def test_the_golden_file_holds_at_least_sixty_lines() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[case[0] for case in CASES])
def test_golden_lines(written: str, spoken: str) -> None:
    assert normalize(written) == spoken


@given(st.text(max_size=200))
def test_any_string_is_normalised_without_markup_or_control_characters(text: str) -> None:
    spoken = normalize(text)
    assert not set(spoken) & set("*#`_|<>{}[]\\^~")
    assert all(char.isprintable() or char == " " for char in spoken if not char.isalnum())


@given(st.lists(st.sampled_from("the quick brown fox jumps over a lazy dog".split()), min_size=1, max_size=12))
def test_plain_words_pass_unchanged(plain: list[str]) -> None:
    assert normalize(" ".join(plain)) == " ".join(plain)


def test_markdown_slashes_and_links_from_a_language_model() -> None:
    written = "## Total\n**$12**: see https://shop.example.com/a_b?x=1 or/and call 555-0100."
    assert normalize(written) == (
        "Total twelve dollars: see shop dot example dot com slash a b or and call five five five zero one zero zero."
    )
