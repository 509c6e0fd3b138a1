"""The books of a stream and its utterances: what came in, what was cut from it, what was sent, what was heard."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from realtime.audio.chunk import AudioChunk
from realtime.errors import TooMuchText
from realtime.protocol.events import End, Mark, SessionEvent, Speak
from realtime.protocol.pauses import pauses_around
from realtime.protocol.replies import Audio
from realtime.protocol.request import StreamRequest
from realtime.protocol.timings import UnitWords
from realtime.protocol.turns import Turns
from realtime.text.segmenter import Piece, Segmenter, is_speakable

__all__ = ["Stream", "Unit", "Utterance"]

UNITS_AHEAD = 4
"""Text is cut this many units ahead of speech and no further: a long message costs the event loop little at a time,
and the engine's queue stays short."""

PIECE_CHARS = 500
MAX_PIECES = 16
"""Text looked at for one input, in pieces, for what gives no units (blanks, symbols)."""

COMMON_MS_PER_CHAR = 70.0
"""Unhurried English, for the first estimate of a unit's length."""

MAX_SPOKEN_CHARS = 300
"""Numbers and addresses grow when they are written out, up to tenfold; a longer prompt might not fit into a slot."""

MAX_OPEN_FLUSHES = 1_000
"""Flushes that may wait for their answer; nobody needs more."""

_TAG = re.compile(r"\[[^\[\]]*\]|<[A-Za-z/|!][^<>]*>")

_FIRST_WIDE_CHAR = "\u2e80"
"""From here on scripts (CJK) write no spaces: any place between two characters is a word boundary."""


@dataclass(slots=True)
class Stream:
    """`start` … `finish`."""

    began_s: float
    request: StreamRequest
    seed: int
    chars: int = 0
    utf8_bytes: int = 0
    audio_ms: float = 0.0
    flushes: int = 0
    is_stopping: bool = False
    """`stop` came: no more text."""
    is_closing: bool = False
    """All audio was sent; only the container's end is still to come."""
    first_text_s: float | None = None
    ttfa_ms: dict[str, float] | None = None
    turns: Turns | None = None
    """None: one voice speaks everything."""

    def took_text(self, text: str, now: float) -> None:
        self.chars += len(text)
        self.utf8_bytes += len(text.encode("utf-8", "replace"))
        if self.first_text_s is None and text.strip():
            self.first_text_s = now

    def took_first_audio(self, parts_ms: dict[str, float], now: float) -> None:
        """Only the stream's first counts; the caller may say so for each utterance. `parts_ms`: since the first unit
        was handed over. What came before is the text's: it was received, waited for the rest of a clause, was read."""
        if self.ttfa_ms is None and self.first_text_s is not None:
            total_ms = (now - self.first_text_s) * 1000
            text_ms = total_ms - sum(parts_ms.values())
            self.ttfa_ms = {"total": round(total_ms, 2), "text": round(text_ms, 2), **parts_ms}

    def since_ms(self, now: float) -> float:
        return round((now - self.began_s) * 1000, 2)


@dataclass(slots=True)
class Unit:
    """One piece of text and the audio sent for it so far."""

    number: int
    text: str
    """As the client wrote it."""
    words: UnitWords
    audio_ms: float = 0.0
    is_done: bool = False
    last_time_ms: float = 0.0
    """Of its last audio, since the stream's start."""


@dataclass(slots=True)
class Utterance:
    """What is spoken between two barge-ins (or from `start` to `finish`). Its inputs return what is to be done."""

    number: int
    segmenter: Segmenter
    read: Callable[[str], str]
    """What is written -> what is said."""
    units: list[Unit] = field(default_factory=list)
    audio_ms: float = 0.0
    next_seq: int = 0
    done_units: int = 0
    """Units are completed in order."""
    held_flushes: list[Mark] = field(default_factory=list)
    """Flushes that wait for speech under way (see `_flush`)."""
    is_held: bool = False
    """The client takes no more for now: no further text is looked at."""
    open_flushes: int = 0
    """Flushes that were not answered yet."""
    inbox: deque[str | Mark | End] = field(default_factory=deque)
    """What came in and was not looked at yet: text in pieces, flushes, the end."""

    # ---- text in, units out ------------------------------------------------------------------------

    def feed(self, text: str) -> list[SessionEvent]:
        self.inbox += [text[i : i + PIECE_CHARS] for i in range(0, len(text), PIECE_CHARS)]
        return self.advance()

    def flush(self, seq: int) -> list[SessionEvent]:
        """Raises TooMuchText."""
        if self.open_flushes >= MAX_OPEN_FLUSHES:
            raise TooMuchText(f"{MAX_OPEN_FLUSHES} flushes wait to be answered already")
        self.open_flushes += 1
        self.inbox.append(Mark(self.number, seq))
        return self.advance()

    def flush_answered(self) -> None:
        self.open_flushes -= 1

    def end(self) -> list[SessionEvent]:
        self.inbox.append(End(self.number))
        return self.advance()

    def unit_done(self, unit_number: int) -> list[SessionEvent]:
        """The unit's audio is complete."""
        self.units[unit_number].is_done = True
        self.done_units = unit_number + 1
        events = self._cut() if self.held_flushes and not self.is_speaking else []
        return events + self.advance()

    def advance(self) -> list[SessionEvent]:
        """Look at what came in, as far as speech needs it by now."""
        events: list[SessionEvent] = []
        for _ in range(MAX_PIECES):
            if self.is_held or not self.inbox or len(self.units) - self.done_units >= UNITS_AHEAD:
                break
            match self.inbox.popleft():
                case str() as text:
                    events += self._speak(self.segmenter.feed(text))
                case Mark() as mark:
                    events += self._flush(mark)
                case End() as end:
                    events += [*self._cut(), end]
        return events

    @property
    def is_speaking(self) -> bool:
        """Whether a unit was handed over whose audio is not complete."""
        return self.done_units < len(self.units)

    def _flush(self, mark: Mark) -> list[SessionEvent]:
        """Speak what is held, now, except inside a sentence while speech is under way: clients that flush after
        every word would otherwise get speech word by word. What is held then goes out when that speech is done."""
        self.held_flushes.append(mark)
        is_inside_sentence = self.segmenter.pending and not self.segmenter.ends_sentence
        return [] if is_inside_sentence and self.is_speaking else self._cut()

    def _cut(self) -> list[SessionEvent]:
        """All held text becomes units; the flushes that waited are answered behind them."""
        events = self._speak(self.segmenter.flush())
        marks, self.held_flushes = self.held_flushes, []
        return [*events, *marks]

    def _speak(self, pieces: list[Piece]) -> list[SessionEvent]:
        events: list[SessionEvent] = []
        for piece in pieces:
            line_breaks = piece.line_breaks
            for written, spoken in self._spoken(piece.text):
                if is_speakable(spoken):
                    unit = Unit(len(self.units), written, UnitWords(written, spoken))
                    self.units.append(unit)
                    pauses = pauses_around(spoken, line_breaks)
                    events.append(Speak(self.number, unit.number, spoken, pauses))
                    line_breaks = 0
        return events

    def _spoken(self, text: str) -> list[tuple[str, str]]:
        """Pieces of the text as they are written and as they are said, none of which is said at too great length."""
        spoken = self.read(text)
        if len(spoken) <= MAX_SPOKEN_CHARS or len(text) < 2:
            return [(text, spoken)]
        middle = _gap_near_middle(text)
        return self._spoken(text[:middle].rstrip()) + self._spoken(text[middle:].lstrip())

    # ---- what was sent and heard ---------------------------------------------------------------------

    def take_audio(self, chunk: AudioChunk, unit_number: int | None, stream_ms: float, time_ms: float) -> Audio:
        """Book a chunk of a unit (None: the container's end). `stream_ms`: audio of the stream before it."""
        unit = None if unit_number is None else self.units[unit_number]
        is_first = unit is not None and not unit.audio_ms
        if unit is not None:
            unit.last_time_ms = time_ms
            if is_first:
                unit.words.begin(stream_ms)
        reply = Audio(
            chunk,
            time_ms,
            utterance=self.number,
            seq=self.next_seq,
            pts_ms=self.audio_ms,
            unit=unit_number,
            text=unit.text if unit is not None and is_first else "",
            timings=tuple(unit.words.take()) if unit is not None else (),
        )
        self.next_seq += 1
        self.audio_ms += chunk.duration_ms
        if unit is not None:
            unit.audio_ms += chunk.duration_ms
        return reply

    def rest_of(self, unit_number: int, stream_ms: float) -> Audio | None:
        """The times of the unit's last words, once its audio is complete, as an Audio without sound. `stream_ms`: audio
        of the stream so far."""
        unit = self.units[unit_number]
        if not unit.audio_ms:  # a model may say nothing
            unit.words.begin(stream_ms)
        if not (timings := unit.words.rest(unit.audio_ms)):
            return None
        return Audio(
            AudioChunk(0.0),
            unit.last_time_ms,
            self.number,
            self.next_seq,
            self.audio_ms,
            unit_number,
            "",
            tuple(timings),
        )

    def split_at(self, played_ms: float | None) -> tuple[str, str]:
        """(spoken, remaining) text when the listener has heard `played_ms` (None: all that was sent).

        The cut falls behind the last word begun, by the model's own alignment. Where it gives none this is an estimate:
        the unit's text is taken to run evenly over its audio, and a unit whose audio is incomplete is scaled by the
        pace of the finished ones. A position outside the audio sent is clamped: players report such.
        """
        is_known = played_ms is not None and not math.isnan(played_ms)
        heard_ms = min(max(played_ms or 0.0, 0.0), self.audio_ms) if is_known else self.audio_ms
        spoken: list[str] = []
        remaining: list[str] = []
        ms_per_char = self._ms_per_char()
        for unit in self.units:
            total_ms = unit.audio_ms if unit.is_done else max(unit.audio_ms, ms_per_char * len(unit.text))
            if heard_ms >= total_ms and unit.is_done:
                spoken.append(unit.text)
            elif heard_ms <= 0:
                remaining.append(unit.text)
            else:
                cut = unit.words.heard_until(heard_ms)
                if cut is None:
                    cut = _end_of_word(unit.text, round(min(1.0, heard_ms / total_ms) * len(unit.text)))
                spoken.append(unit.text[:cut].strip())
                remaining.append(unit.text[cut:].strip())
                heard_ms = 0.0  # of later units nothing, also where sums of floats leave a trace of a millisecond
            heard_ms -= min(heard_ms, unit.audio_ms)
        unread = "".join(item for item in self.inbox if isinstance(item, str))
        remaining.append((self.segmenter.held + unread).strip())
        return " ".join(filter(None, spoken)), " ".join(filter(None, remaining))

    def _ms_per_char(self) -> float:
        """Pace of the finished units; a common one before there are any."""
        done = [unit for unit in self.units if unit.is_done and unit.audio_ms]
        chars = sum(len(unit.text) for unit in done)
        return sum(unit.audio_ms for unit in done) / chars if chars else COMMON_MS_PER_CHAR


def _gap_near_middle(text: str) -> int:
    """Index of the white space outside tags nearest to the middle of stripped text; without any the nearest place that
    is in no tag; the middle itself if there is none."""
    middle = len(text) // 2
    tags = [range(tag.start() + 1, tag.end()) for tag in _TAG.finditer(text)]
    outside = [index for index in range(1, len(text)) if not any(index in tag for tag in tags)]
    gaps = [index for index in outside if text[index].isspace()]
    return min(gaps or outside, key=lambda index: abs(index - middle), default=middle)


def _end_of_word(text: str, index: int) -> int:
    """Index of the end of the word that `index` lies in."""
    while index < len(text) and not text[index].isspace() and text[index] < _FIRST_WIDE_CHAR:
        index += 1
    return index
