"""When the words of a unit are heard, as the client wrote them.

The model's alignment head tells, frame by frame, which character of the *spoken* (normalised) text is being said. Here
that becomes times of the *written* words: written and spoken words are matched, and a word begins when the head first
reaches its spoken form. Where the engine cannot tell, the words share the unit's time by their lengths, and each says
that it is an estimate.

Times are milliseconds; those that come in count from the unit's first sample, those that go out from the stream's.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from realtime.protocol.replies import WordTiming

__all__ = ["UnitWords", "spoken_spans"]

MAX_CHARS_A_FRAME = 12
"""Speech says one or two characters in a frame; a glance of the head further ahead is followed no faster than this."""

MAX_PAIRS = 2_000
"""Of equal words in both texts that are weighed against one another, in some milliseconds; prose has a few hundred. A
text of one character over and over has tens of thousands, and would hold the event loop for a tenth of a second."""

_WORD = re.compile(r"[\u2e80-\uffff]|[^\s\u2e80-\uffff]+")
"""Scripts that write no spaces (CJK) are taken by the character."""


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    """Index in the written text."""
    end: int
    spoken_start: float
    """Position in the spoken text."""
    spoken_end: float


class UnitWords:
    """Of one unit. `hear` comes before the audio it tells of; `take` and `rest` give each word once, in order."""

    def __init__(self, written: str, spoken: str) -> None:
        self._written, self._spoken = written, spoken
        self._reached: list[int] = []
        """For each time of `_times_ms`, how far into the spoken text the voice has come; never falling."""
        self._times_ms: list[float] = []
        self._last_look_ms = 0.0
        self._begin_ms = 0.0
        self._given = 0
        self._last_end_ms = 0.0

    @cached_property
    def _words(self) -> list[_Word]:
        """Matched when somebody asks: on the way to the engine, the listener would wait for it."""
        matches = zip(_WORD.finditer(self._written), spoken_spans(self._written, self._spoken), strict=True)
        return [_Word(m[0], m.start(), m.end(), *span) for m, span in matches]

    def begin(self, stream_ms: float) -> None:
        """The unit's first sample is at this time of the stream."""
        self._begin_ms = stream_ms

    def hear(self, at_ms: float, char: int) -> None:
        """At this time the voice says this character of the spoken text."""
        before = self._reached[-1] if self._reached else 0
        self._reached.append(min(max(char, before), before + MAX_CHARS_A_FRAME))
        # It came there since the last look: in the middle, for all that is known.
        self._times_ms.append((self._last_look_ms + at_ms) / 2)
        self._last_look_ms = at_ms

    def take(self) -> list[WordTiming]:
        """Words whose end is known and that were not given yet."""
        return self._give(None) if self._reached else []

    def rest(self, audio_ms: float) -> list[WordTiming]:
        """The words not given yet, when the unit's audio, this long, is complete."""
        return self._give(audio_ms) if self._reached else self._estimate(audio_ms)

    def heard_until(self, played_ms: float) -> int | None:
        """Index in the written text behind the last word begun when so much of the unit was played; None without
        alignment."""
        if not self._reached:
            return None
        begun = 0
        for word in self._words:
            if (start_ms := self._time_of(word.spoken_start)) is None or start_ms >= played_ms:
                break
            begun = word.end
        return begun

    def _time_of(self, spoken: float) -> float | None:
        """When the voice first reaches this position; None if it did not yet."""
        index = bisect_left(self._reached, spoken)
        return self._times_ms[index] if index < len(self._reached) else None

    def _give(self, audio_ms: float | None) -> list[WordTiming]:
        """Up to the first word whose end is not known; with `audio_ms` all of them end by then."""
        given: list[WordTiming] = []
        for word in self._words[self._given :]:
            start_ms, end_ms = self._time_of(word.spoken_start), self._time_of(word.spoken_end)
            if audio_ms is not None:
                start_ms = audio_ms if start_ms is None else min(start_ms, audio_ms)
                end_ms = audio_ms if end_ms is None else min(end_ms, audio_ms)
            if start_ms is None or end_ms is None:
                break
            given.append(self._timing(word, start_ms, end_ms, is_estimate=False))
        self._given += len(given)
        return given

    def _estimate(self, audio_ms: float) -> list[WordTiming]:
        words = self._words[self._given :]
        self._given = len(self._words)
        if not words:
            return []
        ms_per_char = audio_ms / max(1, words[-1].end - words[0].start)
        first = words[0].start
        return [
            self._timing(word, (word.start - first) * ms_per_char, (word.end - first) * ms_per_char, is_estimate=True)
            for word in words
        ]

    def _timing(self, word: _Word, start_ms: float, end_ms: float, *, is_estimate: bool) -> WordTiming:
        """In time of the stream; never before the end of the word before."""
        start_ms = max(start_ms, self._last_end_ms)
        self._last_end_ms = max(end_ms, start_ms)
        return WordTiming(
            word.text,
            round(self._begin_ms + start_ms, 1),
            round(self._begin_ms + self._last_end_ms, 1),
            is_estimate,
        )


def spoken_spans(written: str, spoken: str) -> list[tuple[float, float]]:
    """For each word of the written text, where its spoken form begins and ends in the spoken text; never falling.

    Words that are said as written are matched as they are; what lies between two matches ("$4.75" and "four dollars
    and seventy five cents") is shared out by length. A word that is not said at all gets an empty span.
    """
    said = list(_WORD.finditer(spoken))
    names = [_bare(word) for word in _WORD.findall(written)]
    spans: list[tuple[float, float]] = []
    for tag, w0, w1, s0, s1 in _differences(names, [_bare(match[0]) for match in said]):
        if tag == "equal":
            spans += [(_begin(match), _end(match)) for match in said[s0:s1]]
        elif w1 > w0:
            start = _begin(said[s0]) if s0 < len(said) else len(spoken)
            end = _end(said[s1 - 1]) if s1 > s0 else start
            spans += _share(names[w0:w1], start, end)
    return spans


def _differences(names: list[str], said: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """As `SequenceMatcher.get_opcodes` gives them. Where that would be too dear, all is one difference."""
    if names == said:
        return [("equal", 0, len(names), 0, len(said))]
    counts = Counter(said)
    if sum(counts[name] for name in names) > MAX_PAIRS:
        return [("replace", 0, len(names), 0, len(said))]
    return SequenceMatcher(None, names, said, autojunk=False).get_opcodes()


def _share(names: list[str], start: float, end: float) -> list[tuple[float, float]]:
    """The span cut at the names' lengths."""
    per_char = (end - start) / max(1, sum(map(len, names)))
    spans: list[tuple[float, float]] = []
    for name in names:
        spans.append((start, min(end, start + len(name) * per_char)))
        start = spans[-1][1]
    return spans


def _begin(word: re.Match[str]) -> int:
    """The blank before it: running speech has no pause there, and the head passes it as the word's sound begins."""
    return max(0, word.start() - 1)


def _end(word: re.Match[str]) -> int:
    """Without marks behind it: the head rests on them in a pause."""
    letters = len(word[0])
    while letters and not word[0][letters - 1].isalnum():
        letters -= 1
    return max(_begin(word), word.start() + letters)


def _bare(word: str) -> str:
    return "".join(filter(str.isalnum, word)).casefold()
