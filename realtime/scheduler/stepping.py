"""Who takes part in the next engine step, and when there should be one.

A step is made for somebody who needs it, and then everybody with room in his lead takes part. While someone waits for
the first sound of an utterance, those whose listeners have sound enough step aside: the step is shorter, and on a CPU
the prefill has the cores. See realtime.scheduler.policy for the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from engine.api import Limits, SlotId, SlotRef, Vocode
from realtime.scheduler.policy import SHORT_LEAD_S, comfort_s, patience_s, refill_s, vocode_width
from realtime.scheduler.speech import Generation, Needs, Session, Speech

__all__ = ["Step", "choose_step"]

SAME_TIME_S = 1e-6
"""Times nearer to each other than this are one: a lead is a sum of floats."""


@dataclass(slots=True)
class Step:
    decode: tuple[SlotRef, ...]
    vocode: tuple[Vocode, ...]
    """Least slack first."""
    due_s: float
    """Where nobody needs a step (both are empty): when somebody will, if nothing new is heard."""


_Row = tuple[SlotId, Speech, Generation]
"""A slot with a unit under way."""


def choose_step(sessions: Iterable[Session], limits: Limits, now: float) -> Step:
    """What is chosen is booked in the sessions as planned."""
    rows, someone_waits = _rows(sessions)
    taking_part, due_s = [], math.inf
    for row in rows:
        _, speech, g = row
        if g.needs is None:
            g.needs = _needs(speech, g, limits, now)
        if someone_waits and speech.has_sound and g.needs.aside_until_s > now + SAME_TIME_S:
            due_s = min(due_s, max(g.needs.step_s, g.needs.aside_until_s))
        else:
            taking_part.append(row)
            due_s = min(due_s, g.needs.step_s)
    if due_s > now + SAME_TIME_S:
        return Step((), (), due_s)
    return Step(*_book(taking_part, limits, now), due_s)


def _rows(sessions: Iterable[Session]) -> tuple[list[_Row], bool]:
    """And whether somebody waits for a first sound."""
    rows: list[_Row] = []
    someone_waits = False
    for session in sessions:
        slot, speech = session.slot, session.speech
        if slot is None or speech is None:
            continue
        g = speech.generation
        if not speech.has_sound and (g is not None or speech.has_unit_waiting):
            someone_waits = True
        if g is not None and g.is_armed:
            rows.append((slot, speech, g))
    return rows, someone_waits


def _needs(speech: Speech, g: Generation, limits: Limits, now: float) -> Needs:
    lead_s = speech.lead_s(now, limits.frame_s)
    aside_until_s = now + lead_s - comfort_s(speech.max_lead_s)
    if g.is_submitted:
        return Needs(now if g.pending > 0 else math.inf, aside_until_s)
    emptied_s = now + lead_s - refill_s(speech.max_lead_s)
    patient_s = speech.decoded_s + patience_s(lead_s, speech.max_lead_s, limits.frame_s)
    return Needs(max(emptied_s, patient_s), aside_until_s)


def _book(rows: list[_Row], limits: Limits, now: float) -> tuple[tuple[SlotRef, ...], tuple[Vocode, ...]]:
    decode: list[SlotRef] = []
    vocode: list[Vocode] = []
    leads = [(row[1].lead_s(now, limits.frame_s), row) for row in rows]
    short_leads = sum(lead_s < SHORT_LEAD_S for lead_s, _ in leads)
    for lead_s, (slot, speech, g) in sorted(leads, key=lambda pair: pair[0]):
        has_room = g.submitted - g.vocoded < limits.max_pending_frames
        if not g.is_submitted and has_room and lead_s < speech.max_lead_s:
            decode.append(SlotRef(slot, g.epoch))
            g.submitted += 1
            g.needs, speech.decoded_s = None, now
        is_first = not speech.has_sound and g.vocoded == 0
        width = vocode_width(lead_s, is_first=is_first, short_leads=short_leads, limit=limits.max_vocode_frames)
        if g.pending >= width or (g.is_submitted and g.pending > 0):
            frames = min(g.pending, width)
            vocode.append(Vocode(slot, g.epoch, g.vocoded, frames, reset=not speech.codec_runs))
            g.vocoded += frames
            g.needs, speech.codec_runs = None, True
    return tuple(decode), tuple(vocode)
