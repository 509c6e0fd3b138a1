"""When a stream has waited long enough for its server. Pure: the time is an argument, in seconds of one clock."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Deadlines", "Timeouts"]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Longest waits, in seconds; None waits for ever."""

    connect_s: float | None = 10.0
    first_audio_s: float | None = 30.0
    """From the moment audio is owed (`stop`, `flush`) to the first of it."""
    audio_gap_s: float | None = 30.0
    """Between two audio events while more is owed. The server paces: a gap can be as long as `max_lead_s`."""
    total_s: float | None = None
    """From `start` to `finish`. An agent may keep a stream open for hours, so there is none by default."""


class Deadlines:
    """The audio deadlines run only while something is owed: an agent between two turns waits for nothing."""

    def __init__(self, timeouts: Timeouts, now_s: float) -> None:
        self._timeouts, self._began_s = timeouts, now_s
        self._since_s: float | None = None
        """Of the last progress, or of the debt's beginning; None while nothing is owed."""
        self._has_audio = False

    def owe(self, now_s: float) -> None:
        """The server was asked for something. What is owed already keeps its clock."""
        if self._since_s is None:
            self._since_s, self._has_audio = now_s, False

    def heard(self, now_s: float) -> None:
        """Audio came."""
        if self._since_s is not None:
            self._since_s, self._has_audio = now_s, True

    def settle(self) -> None:
        """Nothing is owed any more."""
        self._since_s = None

    def next(self) -> tuple[float | None, str]:
        """(time of the nearest deadline or None, what it means when it passes)."""
        limits = self._timeouts
        candidates = []
        if limits.total_s is not None:
            candidates.append((self._began_s + limits.total_s, f"the stream took over {limits.total_s:g} s"))
        wait_s = limits.audio_gap_s if self._has_audio else limits.first_audio_s
        if self._since_s is not None and wait_s is not None:
            what = "further audio" if self._has_audio else "audio"
            candidates.append((self._since_s + wait_s, f"no {what} for {wait_s:g} s while it was owed"))
        return min(candidates, default=(None, ""))
