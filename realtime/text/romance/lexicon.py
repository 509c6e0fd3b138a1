"""The words that Spanish and French fill into the common rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Currency", "Lexicon", "Noun"]


@dataclass(frozen=True, slots=True)
class Noun:
    one: str
    many: str
    is_feminine: bool = False


@dataclass(frozen=True, slots=True)
class Currency:
    unit: Noun
    cent: Noun | None
    """None: amounts have no hundredths."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words and small functions; digits come in as ASCII, without separators."""

    cardinal: Callable[[int, bool], str]
    """(value, is_feminine) -> words, as they stand before a noun of that gender: "veintiún", "vingt et une"."""
    alone: Callable[[int], str]
    """Value -> words, as they are counted: "veintiuno"."""
    ordinal: Callable[[int, bool], str]
    """(value from 1, is_feminine) -> words."""
    is_plural: Callable[[float], bool]
    """Whether the noun behind so many is a plural."""
    of: Callable[[str], str]
    """A noun behind "million": "de euros", "d'euros"."""
    cents: Callable[[str, str], str]
    """(the cents' number, their noun) -> what follows the whole amount."""
    gender_behind: Callable[[int, str], bool | None]
    """Whether the word behind a number is a feminine noun, as far as its form tells; None: it is not counted."""
    digits: tuple[str, ...]
    comma: str
    point: str
    negative: str
    range: str
    """Between the ends of a range."""
    percent: str
    per_thousand: str
    half: str
    """One half, alone."""
    and_half: str
    """Behind a whole number."""
    parts: Mapping[int, Noun]
    """Denominators with a name of their own, from 3 on."""
    over: str
    by: str
    """Between the sides of a rectangle."""
    product: str
    """Between factors."""
    factor: str
    """Behind a single factor ("2x")."""
    divided: str
    plus_minus: str
    power: str
    about: str
    per: str
    """Before what a measure is divided by: "por", "par"."""
    millions: tuple[str, ...]
    """How a number ends that takes `of` before its noun."""
    months: tuple[str, ...]
    short_months: Mapping[str, int]
    """Abbreviation, without its dot -> 1 … 12."""
    first_of_month: str
    month_join: str
    """Between day, month and year: " de " or " "."""
    day_words: str
    """A pattern: what makes a "3/4" behind it a date."""
    currencies: Mapping[str, Currency]
    """By symbol or code."""
    scales: Mapping[str, int]
    """Written behind a number (k, M, millones) -> its value."""
    units: Mapping[str, Noun]
    powers: Mapping[str, str]
    """² and ³ behind a unit of length -> the adjective."""
    per_units: Mapping[str, str]
    """Written behind a slash -> said behind `per`."""
