"""The scheduler's judgements, as pure functions of numbers. Seconds are playback time."""

from __future__ import annotations

import math

__all__ = ["speech_limit_frames", "vocode_width"]

SPEECH_LIMIT_BASE_S = 1.0
SPEECH_LIMIT_PER_CHAR_S = 0.14
"""Twice the time that unhurried English takes per character, so that only a runaway meets the limit."""

_WIDTHS = ((0.25, 1), (0.6, 2), (1.5, 4))
_WIDEST = 8
"""A message costs some 0.3 ms of interpreter time from codec to socket, however much sound is in it."""


def vocode_width(lead_s: float, *, is_first: bool, limit: int) -> int:
    """How many frames the codec should take at once: the first alone, more as the listener's buffer grows.

    Small calls cost more per frame, large ones come later: the lead says which matters.
    """
    if is_first:
        return 1
    width = next((frames for below_s, frames in _WIDTHS if lead_s < below_s), _WIDEST)
    return min(width, limit)


def speech_limit_frames(text: str, frame_s: float) -> int:
    """Frames after which a unit of this text is cut: the guard against a model that never stops."""
    return math.ceil((SPEECH_LIMIT_BASE_S + SPEECH_LIMIT_PER_CHAR_S * len(text)) / frame_s)
