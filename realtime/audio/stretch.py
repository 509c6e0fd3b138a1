"""Speech faster or slower at the same pitch, as a stream: WSOLA (Verhelst and Roelands, 1993).

The output is laid from windows of the input, half overlapping. Each is taken near the place that the speed asks for,
where it goes on best from the one before, so that periods of the voice are repeated or left out whole.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["TimeStretch"]

WINDOW_MS = 30
SEARCH_MS = 8
"""Further than half the period of a deep voice (60 Hz)."""

Pcm = npt.NDArray[np.int16]


class TimeStretch:
    """int16 mono in and out. How the input was cut never matters. `speed` 2 halves the time."""

    def __init__(self, speed: float, rate_hz: int) -> None:
        self._hop = rate_hz * WINDOW_MS // 2000
        self._search = rate_hz * SEARCH_MS // 1000
        self._step = self._hop * speed
        self._speed = speed
        self._rise = (0.5 - 0.5 * np.cos(np.pi * (np.arange(self._hop) + 0.5) / self._hop)).astype(np.float32)
        self._taken, self._input = 0, np.zeros(0, np.float32)
        self._restart()

    def push(self, pcm: Pcm) -> Pcm:
        """The samples that are certain so far."""
        self._taken += len(pcm)
        self._input = np.concatenate([self._input, pcm.astype(np.float32)])
        return self._lay()

    def drain(self) -> Pcm:
        """The rest. The next `push` starts a new run."""
        wanted = round(self._taken / self._speed) - self._given
        silence = np.zeros(round(self._step) + 3 * self._hop + 2 * self._search, np.float32)
        parts: list[Pcm] = []
        while sum(map(len, parts)) < wanted:
            self._input = np.concatenate([self._input, silence])
            parts.append(self._lay())
        self._restart()
        return np.concatenate([np.zeros(0, np.int16), *parts])[: max(0, wanted)]

    def _restart(self) -> None:
        self._input = np.zeros(0, np.float32)
        self._base = 0
        """Position of the buffer's first sample in the run."""
        self._taken = self._given = self._laid = 0
        self._follows: int | None = None
        """Where the input goes on behind the last window's first half."""

    def _lay(self) -> Pcm:
        """One half window after the other, as far as the input reaches."""
        parts = []
        while (part := self._next()) is not None:
            parts.append(part)
        out = np.concatenate([np.zeros(0, np.float32), *parts])
        self._given += len(out)
        clipped: Pcm = np.clip(np.rint(out), -32_768, 32_767).astype(np.int16)
        return clipped

    def _next(self) -> npt.NDArray[np.float32] | None:
        hop, nominal = self._hop, round(self._laid * self._step)
        # The last bound keeps the output from running ahead of its share of the input.
        needed = max(nominal + self._search + hop, (self._follows or 0) + hop, round((self._laid + 1) * self._step))
        if self._base + len(self._input) < needed:
            return None
        if self._follows is None:
            start, part = nominal, self._at(nominal)
        else:
            tail = self._at(self._follows)
            start = self._best(nominal, tail)
            part = tail * self._rise[::-1] + self._at(start) * self._rise
        self._laid += 1
        self._follows = start + hop
        self._forget(min(self._follows, round(self._laid * self._step) - self._search))
        return part

    def _best(self, nominal: int, tail: npt.NDArray[np.float32]) -> int:
        """The start within the search range whose window is most like what would have followed."""
        first = max(0, nominal - self._search)
        span = self._input[first - self._base : nominal + self._search + self._hop - self._base]
        likeness = np.correlate(span, tail, mode="valid")
        energy = np.cumsum(np.concatenate([np.zeros(1), span.astype(np.float64) ** 2]))
        window = energy[self._hop :] - energy[: -self._hop]
        return first + int(np.argmax(likeness / np.sqrt(window + 1.0)))

    def _at(self, position: int) -> npt.NDArray[np.float32]:
        return self._input[position - self._base : position - self._base + self._hop]

    def _forget(self, before: int) -> None:
        if before > self._base:
            self._input = self._input[before - self._base :]
            self._base = before
