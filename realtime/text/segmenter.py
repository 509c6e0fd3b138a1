"""Incremental text -> units, the pieces that are spoken one generation each.

Where a cut falls depends on the text alone, never on how it was split into messages: a cut is made only when what
follows it has been seen far enough to be sure (or on `flush`). The rules:

* a sentence ends at . ! ? (and their CJK forms) or a line break, with its closing quotes; a dot inside a number, an
  address or an abbreviation is none;
* the first unit may also end at a clause mark (, ; : or a dash) once it has `FIRST_CLAUSE_CHARS` characters, so that
  speech starts early;
* a unit shorter than `MIN_UNIT_CHARS` takes the next sentence along, since very short ones are spoken badly;
* a unit never exceeds `max_chars`: it is then cut at its last clause mark, else at its last space;
* `[…]` and `<…>` are not cut and hold the text back until they close (at most `MAX_TAG_CHARS`);
* a piece without any letter or digit joins the next unit, or vanishes on `flush` or when it is longer than a unit.
"""

from __future__ import annotations

import re

__all__ = ["FIRST_CLAUSE_CHARS", "MAX_TAG_CHARS", "MIN_UNIT_CHARS", "Segmenter", "is_speakable"]

FIRST_CLAUSE_CHARS = 20
MIN_UNIT_CHARS = 10
MAX_TAG_CHARS = 200
MAX_GAP_CHARS = 50
"""A dot followed by this much white space ends a sentence, whatever comes then."""

_TERMINATORS = ".!?…"
_CJK_TERMINATORS = "。！？｡"
_CLAUSE_MARKS = ",;:—–،、，；："
_CLOSERS = "\"'”’)]}»」』"

# Never the end of a sentence: a name or a number follows.
_TITLES = frozenset("dr mr mrs ms prof st jr sr gen col sgt capt lt rev hon gov sen rep pres no nos vs fig vol".split())
# The end of a sentence only when a capital follows.
_MAYBE_FINAL = frozenset(
    "a.m p.m e.g i.e etc inc ltd co corp approx dept est ave blvd rd u.s u.k u.n d.c ph.d m.d b.a m.a "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun".split()
)
_LAST_WORD = re.compile(r"[\w.]*\w$")


def is_speakable(text: str) -> bool:
    """Whether there is anything to say: at least one letter or digit."""
    return any(char.isalnum() for char in text)


class Segmenter:
    """One utterance's text. `feed` and `flush` return the units that became certain, stripped, in order."""

    def __init__(self, max_chars: int = 200) -> None:
        self._max_chars = max_chars
        self._buffer = ""
        self._is_first = True

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
        return self._buffer.rstrip().rstrip(_CLOSERS).endswith((*_TERMINATORS, *_CJK_TERMINATORS))

    def feed(self, text: str) -> list[str]:
        """Append text verbatim."""
        self._buffer += text
        return self._take(final=False)

    def flush(self) -> list[str]:
        """Everything held back becomes units now."""
        units = self._take(final=True)
        rest, self._buffer = self._buffer.strip(), ""
        if is_speakable(rest):
            units.append(rest)
            self._is_first = False
        return units

    def _take(self, *, final: bool) -> list[str]:
        units = []
        self._buffer = self._buffer.lstrip()
        while (cut := self._next_cut(final)) is not None:
            unit = self._buffer[:cut].strip()
            self._buffer = self._buffer[cut:].lstrip()
            if is_speakable(unit):
                units.append(unit)
                self._is_first = False
        return units

    def _next_cut(self, final: bool) -> int | None:
        """Where the first unit of the buffer ends, if that is certain."""
        text = self._buffer
        speakable = False
        soft_cut = 0  # the last place where an overlong unit may be cut
        index = 0
        while index < len(text):
            if index >= self._max_chars:
                return soft_cut or index
            char = text[index]
            if char in "[<":
                end = _tag_end(text, index, final)
                if end is None:
                    return None
                # An overlong unit is cut before a tag that would cross the limit, not inside it.
                if end > self._max_chars and speakable and end > index + 1:
                    return index
                speakable = speakable or is_speakable(text[index:end])
                index = end
                continue
            speakable = speakable or char.isalnum()
            end = index + 1
            if char in _TERMINATORS or char in _CJK_TERMINATORS or char == "\n":
                limit = min(len(text), self._max_chars)
                while end < limit and (text[end] in _TERMINATORS or text[end] in _CJK_TERMINATORS):
                    end += 1
                while end < limit and text[end] in _CLOSERS:
                    end += 1
                ends = _ends_sentence(text, index, end, final)
                if ends is None:
                    return None
                if ends and speakable and len(text[:end].strip()) >= MIN_UNIT_CHARS and end <= self._max_chars:
                    return end
                soft_cut = end if ends and speakable and end <= self._max_chars else soft_cut
            elif char in _CLAUSE_MARKS and speakable:
                if end == len(text) and not final:
                    return None
                if end < len(text) and (text[end].isspace() or char in "—–、，；："):
                    if self._is_first and end >= FIRST_CLAUSE_CHARS and end <= self._max_chars:
                        return end
                    soft_cut = end if end <= self._max_chars else soft_cut
            elif char.isspace() and speakable and soft_cut < self._max_chars // 2:
                soft_cut = -end  # a plain space: only until a clause mark is found
            soft_cut, index = abs(soft_cut), end
        return None


def _tag_end(text: str, start: int, final: bool) -> int | None:
    """End of the tag that opens at `start`; start + 1 if it is no tag; None if that is not known yet."""
    if text[start] == "<":
        if start + 1 == len(text):
            return start + 1 if final else None
        if not (text[start + 1].isalpha() or text[start + 1] in "/|!"):
            return start + 1
    close = text.find("]" if text[start] == "[" else ">", start, start + MAX_TAG_CHARS)
    if close >= 0:
        return close + 1
    return start + 1 if final or len(text) - start >= MAX_TAG_CHARS else None


def _ends_sentence(text: str, index: int, end: int, final: bool) -> bool | None:
    """Whether the terminator at `index` (its run ends at `end`) ends a sentence; None if more must be seen."""
    if end == len(text):
        return True if final else None
    char = text[index]
    if char in _CJK_TERMINATORS:
        return True
    if char != "\n" and not text[end].isspace():
        return False
    following = text[end : end + MAX_GAP_CHARS].lstrip()
    if not following:
        return True if final or len(text) - end >= MAX_GAP_CHARS else None
    if char != ".":
        return True
    return _dot_ends_sentence(text[:index], is_run=end - index > 1 and text[index + 1] == ".", next_char=following[0])


def _dot_ends_sentence(before: str, *, is_run: bool, next_char: str) -> bool:
    """A dot followed by a space: an end of sentence, or part of an abbreviation, an initial or a list number?"""
    if is_run:
        return not next_char.islower()
    match = _LAST_WORD.search(before[-24:])
    word = match.group() if match else ""
    lowered = word.lower()
    if lowered in _TITLES and not (lowered == "no" and next_char.isalpha()):
        return False
    if lowered in _MAYBE_FINAL:
        return next_char.isupper()
    if len(word) == 1 and word.isalpha() and word.isupper() and word != "I":
        return False
    return not (word.isdigit() and before.strip() == word)
