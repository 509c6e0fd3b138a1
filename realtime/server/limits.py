"""What one API key may use at once and in a minute, so that one client's mistake is not everybody's outage."""

from __future__ import annotations

from dataclasses import dataclass

from realtime.errors import TooManySessions

__all__ = ["KeyLimits"]

MINUTE_S = 60.0


@dataclass(slots=True)
class _Use:
    open: int
    credit: float
    """Entries that are allowed at once by now; grows back with time."""
    counted_s: float


class KeyLimits:
    """Counts sockets and requests by key. `holder` names a key, and is kept while it has something open or owes time.

    The keys are the operator's, so the table is no larger than their list.
    """

    def __init__(self, max_open: int, max_per_minute: int) -> None:
        """0 means without a limit."""
        self._max_open, self._max_per_minute = max_open, max_per_minute
        self._uses: dict[str, _Use] = {}

    def enter(self, holder: str, now: float) -> None:
        """One more socket or request. Raises TooManySessions, which names the limit and never the key."""
        use = self._uses.setdefault(holder, _Use(0, float(self._max_per_minute), now))
        if self._max_open and use.open >= self._max_open:
            raise TooManySessions(f"this key has {use.open} sessions open, which is its limit")
        if self._max_per_minute:
            earned = (now - use.counted_s) * self._max_per_minute / MINUTE_S
            use.credit, use.counted_s = min(use.credit + earned, float(self._max_per_minute)), now
            if use.credit < 1:
                raise TooManySessions(f"this key may open {self._max_per_minute} sessions a minute, and did")
            use.credit -= 1
        use.open += 1

    def leave(self, holder: str) -> None:
        """The socket or request is over."""
        self._uses[holder].open -= 1

    def open_of(self, holder: str) -> int:
        return self._uses[holder].open if holder in self._uses else 0
