"""Dialogue in one text: `<|speaker:N|>` says who speaks what follows."""

from __future__ import annotations

import re

__all__ = ["SpeakerSplitter"]

_TAG = re.compile(r"<\|speaker:(\d{1,2})\|>")
_OPENING = "<|speaker:"
_UNFINISHED = re.compile(r"<\|speaker:\d{0,2}\|?")


class SpeakerSplitter:
    """Text in any pieces -> (speaker, text) in order. A tag may come in pieces too: its beginning is held back."""

    def __init__(self) -> None:
        self._speaker = 0
        self._held = ""

    def feed(self, text: str) -> list[tuple[int, str]]:
        """A speaker's text may come in several pieces; pieces are never empty."""
        text = self._held + text
        cut = text.rfind("<")
        tail = text[cut:] if cut >= 0 else ""
        is_unfinished = bool(tail) and (_OPENING.startswith(tail) or _UNFINISHED.fullmatch(tail) is not None)
        self._held = tail if is_unfinished else ""
        return self._split(text[:cut] if is_unfinished else text)

    def flush(self) -> list[tuple[int, str]]:
        """What was held back is no tag after all."""
        text, self._held = self._held, ""
        return self._split(text)

    def _split(self, text: str) -> list[tuple[int, str]]:
        pieces = []
        parts = _TAG.split(text)
        for index, part in enumerate(parts):
            if index % 2:
                self._speaker = int(part)
            elif part:
                pieces.append((self._speaker, part))
        return pieces
