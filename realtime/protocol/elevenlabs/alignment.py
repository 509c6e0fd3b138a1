"""Words with times -> the character alignment of ElevenLabs' messages.

`sync_alignment` counts from the context's begin. Without it clients expect times within the message and add up the
ends of the alignments they got, so each alignment here counts from the end of the one before: no gap is lost.

Times that are estimates say so in a field that is ours (`isEstimate`); clients pass over what they do not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from realtime.protocol.replies import WordTiming

__all__ = ["Alignment", "characters"]


def characters(words: Sequence[WordTiming]) -> tuple[list[str], list[float], list[float]]:
    """(characters, starts, durations) in ms: each word's characters evenly over its time, then a space of no time."""
    chars: list[str] = []
    starts_ms: list[float] = []
    durations_ms: list[float] = []
    for word in words:
        each_ms = (word.end_ms - word.start_ms) / max(1, len(word.text))
        chars += [*word.text, " "]
        starts_ms += [word.start_ms + each_ms * index for index in range(len(word.text))] + [word.end_ms]
        durations_ms += [each_ms] * len(word.text) + [0.0]
    return chars, starts_ms, durations_ms


class Alignment:
    """Of one context."""

    def __init__(self, *, is_synced: bool) -> None:
        self._is_synced, self._end_ms = is_synced, 0.0

    def of(self, words: Sequence[WordTiming]) -> dict[str, Any] | None:
        """The field's value for the words that one message brings; None if it brings none."""
        if not words:
            return None
        chars, starts_ms, durations_ms = characters(words)
        origin_ms = 0.0 if self._is_synced else self._end_ms
        self._end_ms = max(self._end_ms, words[-1].end_ms)
        # Ends are rounded, not durations, so that rounding does not add up over a long context.
        begins = [round(start_ms - origin_ms) for start_ms in starts_ms]
        ends = [round(start_ms + ms - origin_ms) for start_ms, ms in zip(starts_ms, durations_ms, strict=True)]
        durations = [end - begin for begin, end in zip(begins, ends, strict=True)]
        # The single and the multi socket spell the last field in two ways, and clients look for either.
        times: dict[str, Any] = {
            "chars": chars,
            "charStartTimesMs": begins,
            "charDurationsMs": durations,
            "charsDurationsMs": durations,
        }
        return times | ({"isEstimate": True} if any(word.is_estimate for word in words) else {})
