"""Where text may be cut: what stands at one place of it, and whether what was seen so far is enough to say so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["CLOSERS", "MAX_GAP_CHARS", "MAX_TAG_CHARS", "TERMINATORS", "TIME_QUALIFIERS", "Kind", "Mark", "mark_at"]

MAX_TAG_CHARS = 200
"""A tag longer than this is none."""
MAX_GAP_CHARS = 50
"""A dot followed by this much white space ends a sentence, whatever comes then."""

# These end a sentence only before white space; the wide ones of CJK text stand alone.
_SPACED_TERMINATORS = ".!?…؟۔।॥"
_WIDE_TERMINATORS = "。！？｡"
TERMINATORS = _SPACED_TERMINATORS + _WIDE_TERMINATORS
_SPACED_CLAUSE_MARKS = ",;:،؛"
_DASHES = "–—"
_WIDE_CLAUSE_MARKS = "、，；："
_CLAUSE_MARKS = _SPACED_CLAUSE_MARKS + _DASHES + _WIDE_CLAUSE_MARKS
CLOSERS = "\"'”’)]}»」』"

# Never the end of a sentence: a name, a number or an example follows.
_OPENERS = frozenset(
    "dr mr mrs ms prof st gen col sgt capt lt rev hon gov sen rep pres mt "
    "no nos fig vol vs cf e.g i.e approx dept".split()
)
# The end of a sentence only when a capital follows.
_MAYBE_FINAL = frozenset(
    "a.m p.m etc inc ltd co corp est ave blvd rd jr sr d.c ph.d m.d b.a m.a "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun".split()
)
TIME_QUALIFIERS = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun eastern central mountain "
    "pacific est edt cst cdt mst mdt pst pdt et ct pt gmt utc cet".split()
)
"""After "3 p.m." these belong to the time, though a capital begins them."""
_MAX_QUALIFIER_CHARS = max(map(len, TIME_QUALIFIERS))

_WORD = re.compile(rf"[^\s\[<{re.escape(TERMINATORS + _CLAUSE_MARKS)}]+")
_LAST_WORD = re.compile(r"[\w.]*\w$")
_MAX_ABBREVIATION_CHARS = 24
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_LETTERS = re.compile(r"[A-Za-z]*")


class Kind(Enum):
    """WORD is whatever is not one of the others, a decimal point included."""

    WORD = auto()
    SPACE = auto()
    CLAUSE = auto()
    SENTENCE = auto()
    TAG = auto()


@dataclass(frozen=True, slots=True)
class Mark:
    kind: Kind
    end: int
    """Index behind it, its closing quotes included."""


def mark_at(text: str, index: int, limit: int, *, is_final: bool) -> Mark | None:
    """What begins at `index`; None if that depends on text not seen yet, which `is_final` says there is none of.

    Marks but tags do not reach beyond `limit`, and nothing waits for more than a tag's length behind it.
    """
    char = text[index]
    if char == "\n":
        return Mark(Kind.SENTENCE, index + 1)
    if char.isspace():
        return Mark(Kind.SPACE, index + 1)
    if char in "[<":
        return _tag_at(text, index, is_final)
    if char in TERMINATORS:
        return _terminator_at(text, index, limit, is_final)
    if char in _CLAUSE_MARKS:
        return _clause_mark_at(text, index, limit, is_final)
    word = _WORD.match(text, index, limit)
    assert word is not None, f"{char!r} is neither a mark nor part of a word"
    return Mark(Kind.WORD, word.end())


def _tag_at(text: str, start: int, is_final: bool) -> Mark | None:
    plain = Mark(Kind.WORD, start + 1)
    if text[start] == "<":
        if start + 1 == len(text):
            return plain if is_final else None
        if not (text[start + 1].isalpha() or text[start + 1] in "/|!"):
            return plain
    close = text.find("]" if text[start] == "[" else ">", start, start + MAX_TAG_CHARS)
    if close >= 0:
        return Mark(Kind.TAG, close + 1)
    return plain if is_final or len(text) - start >= MAX_TAG_CHARS else None


def _clause_mark_at(text: str, index: int, limit: int, is_final: bool) -> Mark | None:
    char, end = text[index], _skip(text, index + 1, limit, CLOSERS)
    if end == len(text):
        return Mark(Kind.CLAUSE, end) if is_final else None
    if char in _DASHES:
        is_range = text[index - 1 : index].isdigit() and text[end].isdigit()
        return Mark(Kind.WORD if is_range else Kind.CLAUSE, end)
    return Mark(Kind.CLAUSE if char in _WIDE_CLAUSE_MARKS or text[end].isspace() else Kind.WORD, end)


def _terminator_at(text: str, index: int, limit: int, is_final: bool) -> Mark | None:
    run_end = _skip(text, index, limit, TERMINATORS)
    end = _skip(text, run_end, limit, CLOSERS)
    if end == len(text):
        return Mark(Kind.SENTENCE, end) if is_final else None
    if text[index] in _WIDE_TERMINATORS:
        return Mark(Kind.SENTENCE, end)
    ends = text[end].isspace() and _ends_sentence(text, index, run_end, end, is_final)
    return None if ends is None else Mark(Kind.SENTENCE if ends else Kind.WORD, end)


def _ends_sentence(text: str, index: int, run_end: int, end: int, is_final: bool) -> bool | None:
    """Whether the terminators at `index` … `run_end`, with closing quotes up to `end`, end a sentence."""
    run = text[index:run_end]
    trails_off = run[0] == "…" or run.startswith("..")
    is_certain = run[-1] in "!?" and end == run_end
    gap = text[end : end + MAX_GAP_CHARS]
    following = gap.lstrip()
    if is_certain or "\n" in gap[: len(gap) - len(following)] or len(gap) - len(following) == MAX_GAP_CHARS:
        return True
    if not following:
        return True if is_final else None
    if run != ".":
        # "Well... maybe" and "“Really?” he said" go on.
        return not (following[0].islower() and (trails_off or end > run_end))
    return _dot_ends_sentence(text[:index], following, is_final or len(following) > _MAX_QUALIFIER_CHARS)


def _dot_ends_sentence(before: str, following: str, is_word_known: bool) -> bool | None:
    """A dot before white space: the end of a sentence, or of an abbreviation, an initial or a list number?"""
    match = _LAST_WORD.search(before[-_MAX_ABBREVIATION_CHARS:])
    word = match[0] if match else ""
    lowered, first = word.lower(), following[0]
    if lowered in _OPENERS:
        return lowered == "no" and first.isalpha()
    if lowered in ("a.m", "p.m") and first.isupper():
        next_word = _LETTERS.match(following)
        assert next_word is not None, "the pattern matches the empty string"
        if next_word.end() == len(following) and not is_word_known:
            return None
        return next_word[0].lower() not in TIME_QUALIFIERS
    if lowered in _MAYBE_FINAL:
        return first.isupper()
    if _INITIALS.fullmatch(word) or (len(word) == 1 and word.isupper() and word != "I"):
        return False
    return not (word.isdigit() and before.rsplit("\n", 1)[-1].strip() == word)


def _skip(text: str, start: int, limit: int, chars: str) -> int:
    """The first index from `start` whose character is not one of `chars`, at most `limit`."""
    end = start
    while end < min(limit, len(text)) and text[end] in chars:
        end += 1
    return end
