"""Where text may be cut: what stands at one place of it, and whether what was seen so far is enough to say so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

__all__ = [
    "CLAUSE_MARKS",
    "CLOSERS",
    "MAX_GAP_CHARS",
    "MAX_TAG_CHARS",
    "TERMINATORS",
    "Abbreviations",
    "Kind",
    "Mark",
    "mark_at",
]

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
CLAUSE_MARKS = _SPACED_CLAUSE_MARKS + _DASHES + _WIDE_CLAUSE_MARKS
CLOSERS = "\"'”’)]}»」』"

_SENTENCE_OPENERS = "¿¡"

_WORD = re.compile(rf"[^\s\[<{re.escape(TERMINATORS + CLAUSE_MARKS)}]+")
_LAST_WORD = re.compile(r"[\w.]*\w$")
_MAX_ABBREVIATION_CHARS = 24
_MAX_QUALIFIER_CHARS = 9
"""No word of `Abbreviations.time_qualifiers` is longer."""
_GUILLEMET_SPACES = (" ", "\u00a0", "\u202f")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_LETTERS = re.compile(r"[A-Za-z]*")


@dataclass(frozen=True, slots=True)
class Abbreviations:
    """What a language writes with a dot that may not end a sentence. All in lower case, without that dot."""

    never_final: frozenset[str]
    """A name, a number or an example follows."""
    maybe_final: frozenset[str]
    """The end of a sentence only when a capital follows."""
    numbering: frozenset[str] = frozenset({"no"})
    """Never final before a number, a word like others before anything else."""
    halves_of_day: frozenset[str] = frozenset()
    """Like `maybe_final`, unless one of `time_qualifiers` follows."""
    time_qualifiers: frozenset[str] = frozenset()
    """These belong to the time before them, though a capital begins them."""
    letter_words: str = ""
    """Words of one capital letter; any other such letter is an initial."""


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


def mark_at(text: str, index: int, limit: int, abbreviations: Abbreviations, *, is_final: bool) -> Mark | None:
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
        return _terminator_at(text, index, limit, abbreviations, is_final)
    if char in CLAUSE_MARKS:
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


def _terminator_at(text: str, index: int, limit: int, abbreviations: Abbreviations, is_final: bool) -> Mark | None:
    run_end = _skip(text, index, limit, TERMINATORS)
    end = _skip(text, run_end, limit, CLOSERS)
    if end == run_end and (guillemet := _spaced_guillemet(text, run_end)) != run_end:
        if guillemet is None:
            return Mark(Kind.SENTENCE, end) if is_final else None
        end = min(guillemet, limit)
    if end == len(text):
        return Mark(Kind.SENTENCE, end) if is_final else None
    if text[index] in _WIDE_TERMINATORS:
        return Mark(Kind.SENTENCE, end)
    ends = text[end].isspace() and _ends_sentence(text, index, run_end, end, abbreviations, is_final)
    return None if ends is None else Mark(Kind.SENTENCE if ends else Kind.WORD, end)


def _spaced_guillemet(text: str, start: int) -> int | None:
    """The index behind a closing guillemet that a space sets off, as in French, if one was opened before `start`, else
    `start`; None if that was not seen yet."""
    if text.rfind("«", 0, start) <= text.rfind("»", 0, start):
        return start
    if not text.startswith(_GUILLEMET_SPACES, start):
        return start
    if start + 1 == len(text):
        return None
    return start + 2 if text[start + 1] == "»" else start


def _ends_sentence(
    text: str, index: int, run_end: int, end: int, abbreviations: Abbreviations, is_final: bool
) -> bool | None:
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
    return _dot_ends_sentence(text[:index], following, abbreviations, is_final)


def _dot_ends_sentence(before: str, following: str, abbreviations: Abbreviations, is_final: bool) -> bool | None:
    """A dot before white space: the end of a sentence, or of an abbreviation, an initial or a list number?"""
    match = _LAST_WORD.search(before[-_MAX_ABBREVIATION_CHARS:])
    word = match[0] if match else ""
    lowered, first = word.lower(), following[0]
    if lowered in abbreviations.numbering:
        return first.isalpha()
    if lowered in abbreviations.never_final:
        return False
    is_beginning = first.isupper() or first in _SENTENCE_OPENERS
    if lowered in abbreviations.halves_of_day and is_beginning:
        next_word = _LETTERS.match(following)
        assert next_word is not None, "the pattern matches the empty string"
        is_whole = is_final or next_word.end() < len(following) or len(following) > _MAX_QUALIFIER_CHARS
        return next_word[0].lower() not in abbreviations.time_qualifiers if is_whole else None
    if lowered in abbreviations.maybe_final or lowered in abbreviations.halves_of_day:
        return is_beginning
    if _INITIALS.fullmatch(word) or (len(word) == 1 and word.isupper() and word not in abbreviations.letter_words):
        return False
    return not (word.isdigit() and before.rsplit("\n", 1)[-1].strip() == word)


def _skip(text: str, start: int, limit: int, chars: str) -> int:
    """The first index from `start` whose character is not one of `chars`, at most `limit`."""
    end = start
    while end < min(limit, len(text)) and text[end] in chars:
        end += 1
    return end
