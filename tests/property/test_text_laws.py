"""Laws of the segmenter: units depend on the text alone, together they are the text, and little is held back."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from realtime.text.english import ENGLISH
from realtime.text.language import Language
from realtime.text.languages import LANGUAGES
from realtime.text.segmenter import MAX_TAG_CHARS, Piece, Segmenter, is_speakable

MAX_CHARS = 100

WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=9)
MARKS = st.sampled_from(
    '|.|,|!|?|...|…|;|:|\n|."|?"|,"|)| —|–|。|、|।| Dr.| 3.5| at 3 p.m.| Monday| e.g.| U.S.| 2.| [x]|<b>| [|<| 🙂|'
    " «| ?| !| « a ? »| « a. »| ¿| ¡| Sr.| p. ej.| a. m.| EE. UU.| M.| No.| etc.|"
    "\u0301".split("|")
)
TEXTS = st.lists(st.tuples(WORDS, MARKS), min_size=1, max_size=40).map(lambda ps: " ".join(w + m for w, m in ps))
ANY_LANGUAGE = st.sampled_from(list(LANGUAGES.values()))
RUNS = st.tuples(st.sampled_from('.?。"[<-…\n, a9é(\u2014'), st.integers(1, 400)).map(lambda run: run[0] * run[1])
RUN_TEXTS = st.lists(RUNS, max_size=8).map("".join)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def units_of(*pieces: str, max_chars: int = 200, language: Language = ENGLISH) -> list[str]:
    segmenter = Segmenter(max_chars, abbreviations=language.abbreviations)
    units = [unit for piece in pieces for unit in segmenter.feed(piece)]
    return [unit.text for unit in units + segmenter.flush()]


def collapsed(text: str) -> str:
    return " ".join(text.split())


@given(st.one_of(TEXTS, st.text(max_size=300)), st.lists(st.integers(0, 10_000), max_size=30), ANY_LANGUAGE)
def test_units_depend_on_the_text_alone_never_on_the_messages(text: str, cuts: list[int], language: Language) -> None:
    assert units_of(*pieces_of(text, cuts), language=language) == units_of(text, language=language)


@given(TEXTS, ANY_LANGUAGE)
def test_character_by_character_is_no_different(text: str, language: Language) -> None:
    assert units_of(*text, language=language) == units_of(text, language=language)


@given(TEXTS)
def test_units_together_are_the_text(text: str) -> None:
    assert collapsed(" ".join(units_of(text))) == collapsed(text)


@given(st.text(max_size=400))
def test_units_are_pieces_of_the_text_in_order(text: str) -> None:
    at = 0
    for unit in units_of(text):
        found = text.find(unit, at)
        assert found >= 0
        assert not is_speakable(text[at:found])
        at = found + len(unit)
    assert not is_speakable(text[at:])


@given(st.text(max_size=400), st.integers(100, 300))
def test_any_string_gives_speakable_units_within_the_limit(text: str, max_chars: int) -> None:
    for unit in units_of(text, max_chars=max_chars):
        assert is_speakable(unit)
        assert len(unit) <= max(max_chars, MAX_TAG_CHARS)


@given(RUN_TEXTS, st.integers(1, 50))
def test_held_text_is_bounded_whatever_is_fed(text: str, piece_chars: int) -> None:
    """Or one client could make the segmenter slow."""
    whole, pieces = Segmenter(MAX_CHARS), Segmenter(MAX_CHARS)
    units = whole.feed(text)
    fed: list[Piece] = []
    for start in range(0, len(text), piece_chars):
        fed += pieces.feed(text[start : start + piece_chars])
        assert len(pieces.held) <= MAX_CHARS + MAX_TAG_CHARS + piece_chars
    assert fed == units
    assert pieces.flush() == whole.flush()
    assert all(len(unit.text) <= MAX_CHARS + MAX_TAG_CHARS for unit in units)


@given(TEXTS, st.lists(st.integers(0, 10_000), max_size=6))
def test_a_flush_leaves_nothing_behind(text: str, cuts: list[int]) -> None:
    segmenter = Segmenter()
    for piece in pieces_of(text, cuts):
        segmenter.feed(piece)
        segmenter.flush()
        assert segmenter.held == ""
        assert not segmenter.pending


@given(st.lists(WORDS, min_size=1, max_size=80), st.integers(100, 300))
def test_no_word_is_cut_that_fits_into_a_unit(plain: list[str], max_chars: int) -> None:
    units = units_of(" ".join(plain), max_chars=max_chars)
    assert [word for unit in units for word in unit.split()] == plain
