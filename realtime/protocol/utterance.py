"""The books of a stream and its utterances: what came in, what was sent of it, what a listener has heard."""

from __future__ import annotations

from dataclasses import dataclass, field

from realtime.protocol.request import StreamRequest
from realtime.text.segmenter import Segmenter

__all__ = ["Stream", "Unit", "Utterance"]


@dataclass(slots=True)
class Stream:
    """`start` … `finish`."""

    request: StreamRequest
    began_s: float
    seed: int
    chars: int = 0
    utf8_bytes: int = 0
    audio_ms: float = 0.0
    flushes: int = 0
    is_stopping: bool = False
    ttfa_ms: dict[str, float] | None = None
    first_text_s: float | None = None


@dataclass(slots=True)
class Unit:
    """One piece of text and the audio sent for it so far."""

    number: int
    text: str
    """As the client wrote it."""
    audio_ms: float = 0.0
    is_done: bool = False


@dataclass(slots=True)
class Utterance:
    """What is spoken between two barge-ins (or from `start` to `finish`)."""

    number: int
    segmenter: Segmenter
    units: list[Unit] = field(default_factory=list)
    audio_ms: float = 0.0
    next_seq: int = 0
    held_flushes: list[int] = field(default_factory=list)
    """Flushes that wait for speech under way (see `SessionMachine._flush`)."""

    @property
    def is_speaking(self) -> bool:
        """Whether a unit was handed over whose audio is not complete."""
        return any(not unit.is_done for unit in self.units)

    def add_audio(self, unit_number: int, duration_ms: float) -> None:
        self.audio_ms += duration_ms
        self.units[unit_number].audio_ms += duration_ms

    def split_at(self, played_ms: float | None) -> tuple[str, str]:
        """(spoken, remaining) text when the listener has heard `played_ms` (None: all that was sent).

        An estimate: within a unit the text is taken to run evenly over its audio, and the cut falls on the last
        word begun. A unit whose audio is incomplete is scaled by the pace of the finished ones.
        """
        heard_ms = self.audio_ms if played_ms is None else min(max(played_ms, 0.0), self.audio_ms)
        spoken: list[str] = []
        remaining: list[str] = []
        ms_per_char = self._pace()
        for unit in self.units:
            total_ms = unit.audio_ms if unit.is_done else max(unit.audio_ms, ms_per_char * len(unit.text))
            if heard_ms >= total_ms and unit.is_done:
                spoken.append(unit.text)
            elif heard_ms <= 0 or total_ms <= 0:
                remaining.append(unit.text)
            else:
                cut = _word_boundary(unit.text, min(1.0, heard_ms / total_ms))
                spoken.append(unit.text[:cut].strip())
                remaining.append(unit.text[cut:].strip())
            heard_ms -= min(heard_ms, unit.audio_ms)
        remaining.append(self.segmenter.held.strip())
        return " ".join(filter(None, spoken)), " ".join(filter(None, remaining))

    def _pace(self) -> float:
        """Milliseconds per character of the finished units; a common speaking rate before there are any."""
        done = [unit for unit in self.units if unit.is_done and unit.audio_ms]
        chars = sum(len(unit.text) for unit in done)
        return sum(unit.audio_ms for unit in done) / chars if chars else 70.0


def _word_boundary(text: str, share: float) -> int:
    """Index of the end of the last word begun within the first `share` of the text."""
    index = round(share * len(text))
    space = text.find(" ", index)
    return len(text) if space < 0 else space
