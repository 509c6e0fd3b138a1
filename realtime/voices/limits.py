"""What a clip may be, whatever way it comes by. The sound itself is checked where it is decoded."""

from __future__ import annotations

from realtime.errors import BadReference

__all__ = ["MAX_TRANSCRIPT_CHARS", "checked_transcript"]

MAX_TRANSCRIPT_CHARS = 1_000


def checked_transcript(text: str) -> str:
    """The transcript without blanks around it. It may be empty: the voice is then taken from the sound alone. Raises
    BadReference."""
    text = text.strip()
    if len(text) > MAX_TRANSCRIPT_CHARS:
        raise BadReference(f"the transcript has {len(text)} characters; at most {MAX_TRANSCRIPT_CHARS}")
    return text
