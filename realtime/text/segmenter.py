"""Incremental text -> units, the pieces that are spoken one generation each.

Where a cut falls depends on the text alone, never on how it was split into messages: a cut is made only when what
follows it has been seen far enough to be sure (or on `flush`). The rules:

* a sentence ends at . ! ? (and their forms in other scripts) or a line break, with its closing quotes; a dot inside a
  number, an address or an abbreviation is none;
* the first unit may also end at a clause mark (, ; : or a dash) once it has `FIRST_CLAUSE_CHARS` characters (or as many
  as the client's idea of latency says), so that speech starts early;
* a unit shorter than `MIN_UNIT_CHARS` takes the next sentence along, since very short ones are spoken badly;
* a unit never exceeds `max_chars`: it is then cut at its last clause mark if that lies in its second half, else at its
  last space, and inside a word only where the word is longer than a unit;
* `[…]` and `<…>` are not cut and hold the text back until they close (at most `MAX_TAG_CHARS`);
* a piece without any letter or digit joins the next unit, or vanishes on `flush` or when it is longer than a unit.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from realtime.text.boundaries import CLOSERS, MAX_TAG_CHARS, TERMINATORS, Abbreviations, Kind, mark_at
from realtime.text.english.abbreviations import ABBREVIATIONS as ENGLISH_ABBREVIATIONS

__all__ = ["FIRST_CLAUSE_CHARS", "MAX_TAG_CHARS", "MIN_UNIT_CHARS", "Piece", "Segmenter", "is_speakable"]

FIRST_CLAUSE_CHARS = 20
MIN_UNIT_CHARS = 10
_MAX_EXTENDERS = 8
"""Marks that belong to the character before them; more of them than this are no writing."""


def is_speakable(text: str) -> bool:
    """Whether there is anything to say: at least one letter or digit."""
    return any(char.isalnum() for char in text)


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit's text, stripped."""

    text: str
    line_breaks: int
    """In the blanks between it and the unit before it; none before the first."""


class Segmenter:
    """One utterance's text. `feed` and `flush` return the units that became certain, in order."""

    def __init__(
        self,
        max_chars: int = 200,
        first_clause_chars: int | None = FIRST_CLAUSE_CHARS,
        abbreviations: Abbreviations = ENGLISH_ABBREVIATIONS,
    ) -> None:
        """`first_clause_chars`: from how many characters on the first unit may end at a clause mark; None: never."""
        self._max_chars, self._abbreviations = max_chars, abbreviations
        self._first_clause_chars = max_chars if first_clause_chars is None else first_clause_chars
        self._buffer = ""
        self._is_first = True
        self._line_breaks = 0
        """Since the last unit."""

    @property
    def held(self) -> str:
        """Text received and not yet cut into units."""
        return self._buffer

    @property
    def pending(self) -> bool:
        """Whether text is held back that would be spoken by `flush`."""
        return is_speakable(self._buffer)

    @property
    def ends_sentence(self) -> bool:
        """Whether the held text ends like a sentence, so that a cut here is no accident of the messages."""
        return self._buffer.rstrip().rstrip(CLOSERS).endswith(tuple(TERMINATORS))

    def feed(self, text: str) -> list[Piece]:
        """Append text verbatim."""
        self._buffer += text
        return self._take(is_final=False)

    def flush(self) -> list[Piece]:
        """Everything held back becomes units now."""
        units = self._take(is_final=True)
        rest, self._buffer = self._buffer.strip(), ""
        if is_speakable(rest):
            units.append(self._piece(rest))
        return units

    def _take(self, *, is_final: bool) -> list[Piece]:
        units = []
        self._line_breaks += _leading_line_breaks(self._buffer)
        self._buffer = self._buffer.lstrip()
        while (cut := self._next_cut(is_final)) is not None:
            unit, rest = self._buffer[:cut].strip(), self._buffer
            self._buffer = self._buffer[cut:].lstrip()
            if is_speakable(unit):
                units.append(self._piece(unit))
            self._line_breaks += _leading_line_breaks(rest[len(unit) :])
        return units

    def _piece(self, text: str) -> Piece:
        piece = Piece(text, 0 if self._is_first else self._line_breaks)
        self._is_first, self._line_breaks = False, 0
        return piece

    def _next_cut(self, is_final: bool) -> int | None:
        """Where the first unit of the buffer ends, if that is certain."""
        text, limit = self._buffer, self._max_chars
        is_worded = False
        clause_cut = space_cut = tag_end = index = 0
        while index < min(limit, len(text)):
            mark = mark_at(text, index, limit, self._abbreviations, is_final=is_final)
            if mark is None:
                return None
            end = mark.end
            if end > limit and index:
                return index  # a tag that crosses the limit begins the next unit
            is_worded = is_worded or is_speakable(text[index:end])
            if is_worded and mark.kind is Kind.SENTENCE:
                if end >= MIN_UNIT_CHARS:
                    return end
                clause_cut = end
            elif is_worded and mark.kind is Kind.CLAUSE:
                if self._is_first and end >= self._first_clause_chars:
                    return end
                clause_cut = end
            elif is_worded and mark.kind is Kind.SPACE:
                space_cut = end
            elif mark.kind is Kind.TAG:
                tag_end = end
            index = end
        if len(text) <= limit or index < limit:
            return None
        if index > limit:
            return index  # a tag, all of it
        if text[limit].isspace():
            space_cut = limit
        if clause_cut >= limit // 2:
            return clause_cut
        return space_cut or clause_cut or max(tag_end, _before_extenders(text, limit))


def _leading_line_breaks(text: str) -> int:
    return text[: len(text) - len(text.lstrip())].count("\n")


def _before_extenders(text: str, index: int) -> int:
    """A cut inside a word: not between a letter and its marks."""
    cut = index
    while index - cut < _MAX_EXTENDERS and cut < len(text) and unicodedata.category(text[cut])[0] in "MC":
        cut -= 1
    return cut
