"""Silence at the edges of units, kept to the length that a listener expects there, as a stream.

A model ends each piece of text with silence of its own length and begins it with some, whatever stands between two
pieces: a comma, a paragraph, or nothing but the end of a message. Here silence that touches an edge of a unit is cut to
a limit; silence inside a unit is the model's pause and passes as it is, up to `LONGEST_MS`.

Sound is never held back. Silence is let out as it comes, up to the limit; what lies beyond is held until it is known
whether the unit goes on or ends. The cut falls inside the silence: its beginning has the decay of the last sound, its
last `PRE_ROLL_MS` the onset of the next.

Silence is a run of blocks (an eighth of a frame) in which no sample reaches `QUIET_DBFS`. The bundled voice's silences
peak at -67 to -62 dB of full scale, and its quietest sound, the onset of an "f", passes -56 within 10 ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

__all__ = ["AS_SPOKEN", "LONGEST_MS", "PRE_ROLL_MS", "QUIET_DBFS", "PauseLimiter", "Pauses"]

QUIET_DBFS = -56.0
PRE_ROLL_MS = 20
FADE_MS = 5
"""Where silence was cut the two ends are blended over this: even room noise would tick."""
LONGEST_MS = 1_000
"""Of a silence inside a unit. Longer ones are a model that lost its way, and holding them back would delay the rest."""
BLOCKS_A_FRAME = 8

Pcm = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long the silence around a unit may be, in milliseconds at the model's own speed. Between two units the longer
    of the first one's `after_ms` and the second one's `before_ms` holds; at the beginning there is only the second."""

    before_ms: float
    after_ms: float


AS_SPOKEN = Pauses(math.inf, math.inf)


class PauseLimiter:
    """One utterance: `begin_unit`, its frames by `push`, and so on. int16 mono; how the frames were grouped into calls
    never matters. What is held at the end is silence that nobody misses."""

    def __init__(self, rate_hz: int, frame_samples: int, quiet_dbfs: float = QUIET_DBFS) -> None:
        self._rate_hz = rate_hz
        self._block = frame_samples // math.gcd(frame_samples, BLOCKS_A_FRAME)
        self._quiet = 32_768 * 10 ** (quiet_dbfs / 20)
        self._pre_roll, self._longest = rate_hz * PRE_ROLL_MS // 1000, rate_hz * LONGEST_MS // 1000
        fade = rate_hz * FADE_MS // 1000
        self._rise = ((np.arange(fade) + 0.5) / fade).astype(np.float32)
        self._is_at_edge = True
        """The silence under way touches an edge of a unit."""
        self._edge_limit = self._after = 0.0
        """Samples: of a silence that touches edges, by those passed so far, and of one at the end of this unit."""
        self._out_samples = 0
        """Of the silence under way, how much was let out."""
        self._held = np.zeros(0, np.int16)
        """The rest of it, in full: bounded by the longest unit that a model may speak."""
        self._begin_books()

    def begin_unit(self, pauses: Pauses) -> None:
        """The next frames are another unit's."""
        touched = self._edge_limit if self._is_at_edge else 0.0
        self._edge_limit = max(touched, self._after, pauses.before_ms * self._rate_hz / 1000)
        self._is_at_edge = True
        self._after = pauses.after_ms * self._rate_hz / 1000
        if len(self._held) > self._longest + self._pre_roll:  # units that say nothing must not pile up
            self._held = np.concatenate([self._held[: self._longest], self._held[-self._pre_roll :]])
        self._begin_books()

    def push(self, pcm: Pcm) -> Pcm:
        """int16 [N], whole frames -> what may be heard of them and of what was held."""
        if self._passes(pcm):
            self._unit_in += len(pcm)
            self._unit_out += len(pcm)
            return pcm
        blocks = pcm.reshape(-1, self._block)
        is_loud = (blocks.max(axis=1) >= self._quiet) | (blocks.min(axis=1) <= -self._quiet)
        edges = [0, *(np.flatnonzero(is_loud[1:] != is_loud[:-1]) + 1).tolist(), len(is_loud)]
        parts: list[Pcm] = []
        for first, end in pairwise(edges):
            run = pcm[first * self._block : end * self._block]
            parts += self._sound(run) if is_loud[first] else self._silence(run)
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int16), *parts])

    def place_s(self, sample: int) -> float | None:
        """Where in the sound that was let out of this unit (seconds) this sample of it lies; None: not out yet. Of
        silence that was cut, the place of the cut."""
        if not self._onsets or sample >= self._unit_in - len(self._held):
            return None
        limit = math.inf
        for came_at, out_at in reversed(self._onsets):
            if sample >= came_at:
                return min(out_at + sample - came_at, limit) / self._rate_hz
            limit = out_at
        first_in, first_out = self._onsets[0]
        return max(0, first_out - (first_in - sample)) / self._rate_hz

    def _begin_books(self) -> None:
        self._unit_in = self._unit_out = 0
        self._onsets: list[tuple[int, int]] = []
        """(sample of the unit, sample of what was let out of it) where silence ended."""

    def _passes(self, pcm: Pcm) -> bool:
        """The common case, without a look at every block: sound goes on, and whatever silence it holds ends in it."""
        if self._is_at_edge or self._out_samples or len(self._held) or len(pcm) > self._longest:
            return False
        last = pcm[-self._block :]
        return bool(last.max() >= self._quiet or last.min() <= -self._quiet)

    def _silence(self, run: Pcm) -> list[Pcm]:
        """As much as the limit leaves room for, with the pre-roll to come."""
        held = np.concatenate([self._held, run]) if len(self._held) else run
        limit = self._edge_limit if self._is_at_edge else self._after
        room = int(max(0, min(len(held), limit - self._pre_roll - self._out_samples)))
        self._held = held[room:]
        self._out_samples += room
        self._unit_in += len(run)
        self._unit_out += room
        return [held[:room]] if room else []

    def _sound(self, run: Pcm) -> list[Pcm]:
        limit = self._edge_limit if self._is_at_edge else max(self._longest, self._after)
        keep = max(self._pre_roll, limit - self._out_samples)
        held = self._held if len(self._held) <= keep else self._shortened(int(keep))
        self._unit_out += len(held)
        if self._is_at_edge or len(self._held):
            self._onsets.append((self._unit_in, self._unit_out))
        self._unit_in += len(run)
        self._unit_out += len(run)
        self._is_at_edge, self._out_samples, self._held = False, 0, np.zeros(0, np.int16)
        return [held, run] if len(held) else [run]

    def _shortened(self, keep: int) -> Pcm:
        """The silence held with so many samples: its beginning, blended into its last `PRE_ROLL_MS`."""
        start = keep - self._pre_roll
        last = self._held[-self._pre_roll :].astype(np.float32)
        fading = self._held[start : start + len(self._rise)].astype(np.float32)
        last[: len(fading)] = last[: len(fading)] * self._rise + fading * self._rise[::-1]
        shortened: Pcm = np.concatenate([self._held[:start], np.rint(last).astype(np.int16)])
        return shortened
