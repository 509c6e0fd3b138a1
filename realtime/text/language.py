"""What the normaliser and the segmenter must know of one language."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from realtime.text.boundaries import Abbreviations
from realtime.text.rules import Rule

__all__ = ["Language"]


@dataclass(frozen=True, slots=True)
class Language:
    """Rules are applied in the order of the fields. Patterns may rely on straight quotes and on single spaces."""

    tag: str
    """The primary subtag of BCP 47; empty: none in particular."""
    abbreviations: Abbreviations
    typography: tuple[Rule, ...]
    """On the text as written, before quotes are straightened."""
    marks: tuple[Rule, ...]
    """Markup and addresses."""
    numbers: tuple[Rule, ...]
    """Applied only where a digit is left: these are the dear ones."""
    words: tuple[Rule, ...]
    symbols: frozenset[str] = frozenset()
    """Left for the model to read, since no rule says how."""

    @staticmethod
    def join(*parts: list[Rule]) -> tuple[Rule, ...]:
        return tuple(chain.from_iterable(parts))
