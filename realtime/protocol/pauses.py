"""How long a listener expects the voice to be silent around a piece of text.

The numbers are upper bounds on silence proper (realtime.audio.pauses); the fading of the last sound, some 60 ms, is
heard as part of the pause and comes on top.
"""

from __future__ import annotations

import re

from realtime.audio.pauses import AS_SPOKEN, Pauses
from realtime.text.boundaries import CLAUSE_MARKS, CLOSERS, TERMINATORS

__all__ = ["pauses_around"]

WITHIN_CLAUSE_MS = 80.0
"""Where a message of the client, or the longest unit, ended between two words: no pause, as far as a model that has
finished can do that."""
CLAUSE_MS = 180.0
SENTENCE_MS = 380.0
PARAGRAPH_MS = 640.0

_CUE = re.compile(r"\[[^\[\]]+\]|<[^<>]+>")


def pauses_around(spoken: str, line_breaks: int) -> Pauses:
    """Of a unit as the model reads it, with so many line breaks in front of it in the client's text.

    What leads to silence is asked of the model in cues alone ("[long pause]"); a unit that has any is left as spoken.
    """
    if _CUE.search(spoken):
        return AS_SPOKEN
    before_ms = (0.0, SENTENCE_MS, PARAGRAPH_MS)[min(line_breaks, 2)]
    return Pauses(before_ms, _after_ms(spoken.rstrip().rstrip(CLOSERS)))


def _after_ms(spoken: str) -> float:
    if spoken.endswith(tuple(TERMINATORS)):
        return SENTENCE_MS
    return CLAUSE_MS if spoken.endswith(tuple(CLAUSE_MARKS)) else WITHIN_CLAUSE_MS
