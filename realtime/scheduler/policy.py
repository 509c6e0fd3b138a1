"""The scheduler's judgements, as pure functions of numbers. Seconds are playback time."""

from __future__ import annotations

import math

__all__ = ["CROWD", "SHORT_LEAD_S", "comfort_s", "patience_s", "refill_s", "speech_limit_frames", "vocode_width"]

SPEECH_LIMIT_BASE_S = 1.0
SPEECH_LIMIT_PER_CHAR_S = 0.14
"""Twice the time that unhurried English takes per character, so that only a runaway meets the limit."""

SHORT_LEAD_S = 0.25
_WIDTHS = ((SHORT_LEAD_S, 1), (0.4, 2), (0.8, 4))
_WIDEST = 8
"""A message costs interpreter time from codec to socket, however much sound is in it."""

CROWD = 24
"""With more short leads at once, single frames would be more messages than the interpreter gets rid of: the steps would
wait for it, and the leads would stay short."""

PACED_LEAD_S = 5.0
"""Who lets more be sent ahead wants the sound as soon as may be, not in time."""

PATIENCE = 3 / 4
"""Of a frame, at the most."""

FULL_SHARE, LONGEST_REST_S = 7 / 8, 0.4
"""A lead that was filled calls for a step when it has fallen to this share, or by so much if that is less: clients take
a silent socket for a dead one. Below the whole, it takes part in a step."""

COMFORT_S = 0.5
"""Sound ahead of the listener that outlasts anybody's first step."""


def patience_s(lead_s: float, max_lead_s: float, frame_s: float) -> float:
    """How long after its last frame a slot waits for others to share its next step with: the longer, the more of its
    lead is filled, and never so long as a frame, so that the lead grows.

    A step costs nearly the same for one row as for many: frames that come one by one keep the device busy without end,
    and whoever comes new finds it so.
    """
    if max_lead_s > PACED_LEAD_S:
        return 0.0
    return PATIENCE * frame_s * math.sqrt(min(1.0, max(0.0, lead_s / max_lead_s)))


def refill_s(max_lead_s: float) -> float:
    """The lead at which a slot calls for a step of its own."""
    return max(FULL_SHARE * max_lead_s, max_lead_s - LONGEST_REST_S)


def comfort_s(max_lead_s: float) -> float:
    """The lead from which a slot leaves the device to those who wait for their first sound."""
    return math.inf if max_lead_s > PACED_LEAD_S else min(COMFORT_S, max_lead_s / 2)


def vocode_width(lead_s: float, *, is_first: bool, short_leads: int, limit: int) -> int:
    """How many frames the codec should take at once: the first alone, more as the listener's buffer grows.

    Small calls cost more per frame, large ones come later: the lead says which matters. `short_leads`: how many have
    less than SHORT_LEAD_S in this step.
    """
    if is_first:
        return 1
    width = next((frames for below_s, frames in _WIDTHS if lead_s < below_s), _WIDEST)
    return min(max(width, 2) if short_leads > CROWD else width, limit)


def speech_limit_frames(text: str, frame_s: float) -> int:
    """Frames after which a unit of this text is cut: the guard against a model that never stops."""
    return math.ceil((SPEECH_LIMIT_BASE_S + SPEECH_LIMIT_PER_CHAR_S * len(text)) / frame_s)
