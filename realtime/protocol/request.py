"""What one stream asks for, checked, whatever protocol it came by."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from realtime.errors import BadRequest
from realtime.protocol.events import OutputSpec, Reference
from realtime.text.languages import is_language_tag
from realtime.text.segmenter import FIRST_CLAUSE_CHARS

__all__ = [
    "CHUNK_CHARS",
    "DEFAULT_CHUNK_CHARS",
    "DEFAULT_LEAD_S",
    "HTTP_LEAD_S",
    "StreamRequest",
    "checked_language",
    "checked_number",
]

CHUNK_CHARS = (100, 300)
DEFAULT_CHUNK_CHARS = 200
DEFAULT_LEAD_S = 3.0
HTTP_LEAD_S = math.inf
"""Whoever asks by HTTP wants the sound as soon as may be: as he takes it, so it is made (see realtime.server.speak)."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    text: str = ""
    """Spoken as if it came first."""
    voice: str | None = None
    """Named explicitly; must exist. None: the context's own."""
    reference_id: str | None = None
    """Falls back to the context's own voice with a warning."""
    reference: Reference | None = None
    speakers: tuple[str | Reference, ...] = ()
    """Who speaks the turns that `<|speaker:N|>` begins, by N: ids like `reference_id`, or clips. Empty: the text has
    no turns."""
    output: OutputSpec = field(default_factory=OutputSpec)
    chunk_chars: int = DEFAULT_CHUNK_CHARS
    first_clause_chars: int | None = FIRST_CLAUSE_CHARS
    """See realtime.text.segmenter: how early speech may begin."""
    normalize: bool = True
    language: str | None = None
    """A tag of BCP 47: how figures and abbreviations are read. None: as the voice's own language has it."""
    temperature: float = 0.7
    top_p: float = 0.8
    seed: int | None = None
    """None: drawn."""
    max_lead_s: float = DEFAULT_LEAD_S
    """Seconds of audio sent ahead of playback."""


def checked_number(
    name: str, value: float | None, default: float, low: float, high: float, *, exclusive: bool = False
) -> float:
    """The value, or the default for None. Raises BadRequest naming field, value and bounds. `exclusive`: `low` itself
    is not allowed."""
    if value is None:
        return default
    if not math.isfinite(value) or not low <= value <= high or (exclusive and value == low):
        raise BadRequest(f"{name} is {value}; it must lie between {low:g} and {high:g}")
    return float(value)


def checked_language(name: str, value: str | None) -> str | None:
    """The tag, or None for none. Raises BadRequest naming the field: any language may be asked for, but as a tag."""
    if not value:
        return None
    if not is_language_tag(value):
        raise BadRequest(f"{name} is {value[:80]!r}; it must be a language tag such as en, es or fr-CA")
    return value
