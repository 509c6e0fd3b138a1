"""Roman numerals, where a neighbouring word says that they are some."""

from __future__ import annotations

import re
from collections.abc import Callable

from realtime.text.rules import Rule, rule

__all__ = ["NUMERAL", "roman_after", "roman_value"]

NUMERAL = r"(?=[IVXL])L?X{0,4}(?:IX|IV|V?I{0,3})"
"""1 to 89: centuries, chapters, kings."""

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}


def roman_value(text: str) -> int:
    """ "XIV" -> 14."""
    values = [_VALUES[letter] for letter in text]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def roman_after(words: str, say: Callable[[int, str], str]) -> Rule:
    """Behind one of `words` (a pattern): `say(value, word)`."""

    def spoken(match: re.Match[str]) -> str:
        return f"{match[1]} {say(roman_value(match[2]), match[1])}"

    return rule(rf"\b({words})\s+({NUMERAL})(?![\w'’])", spoken)
