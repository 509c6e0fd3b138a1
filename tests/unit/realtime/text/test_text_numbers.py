"""Numbers as words, at the edges the golden lines of the normaliser do not reach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.text.english.numbers import (
    MAX_CARDINAL_DIGITS,
    cardinal,
    decade,
    decimal,
    digits,
    fraction,
    money,
    number,
)


@given(st.integers(0, 10**18))
def test_numbers_are_words_only(value: int) -> None:
    assert cardinal(f"{value:,}") == cardinal(str(value))
    assert all(word.isalpha() for word in cardinal(str(value)).split())


def test_leading_zeros_and_very_long_numbers_go_digit_by_digit() -> None:
    assert cardinal("007") == "zero zero seven"
    assert cardinal("1" * (MAX_CARDINAL_DIGITS + 1)) == " ".join(["one"] * (MAX_CARDINAL_DIGITS + 1))


def test_digits_skip_what_separates_them() -> None:
    assert digits("(55) 0-1") == "five five zero one"


def test_decimals_and_versions() -> None:
    assert number("1,204.50") == "one thousand two hundred and four point five zero"
    assert decimal(".5") == "zero point five"
    assert decimal("2.10.1") == "two point ten point one"


@pytest.mark.parametrize(
    ("top", "bottom", "spoken"),
    [
        ("1", "2", "one half"),
        ("3", "4", "three quarters"),
        ("5", "6", "five sixths"),
        ("1", "100", "one one hundredth"),
        ("3", "0", "three over zero"),
        ("9", "4", "nine over four"),
        ("1", "13", "one over thirteen"),
    ],
)
def test_fractions(top: str, bottom: str, spoken: str) -> None:
    assert fraction(top, bottom) == spoken


@pytest.mark.parametrize(
    ("symbol", "amount", "spoken"),
    [
        ("$", "0", "zero dollars"),
        ("$", ".50", "fifty cents"),
        ("$", "1.00", "one dollar"),
        ("$", "3.999", "three point nine nine nine dollars"),
        ("£", "0.01", "one penny"),
        ("¥", "1.50", "one point five zero yen"),
    ],
)
def test_money(symbol: str, amount: str, spoken: str) -> None:
    assert money(symbol, amount) == spoken


def test_decades() -> None:
    assert [decade(text) for text in ("1990", "80", "2010")] == ["nineteen nineties", "eighties", "twenty tens"]
