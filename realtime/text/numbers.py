"""Numbers as English words. Hyphens become spaces: that is how the bundled voice was taught to read them."""

from __future__ import annotations

import re

from num2words import num2words

__all__ = ["cardinal", "decimal", "digits", "money", "ordinal", "year"]

_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MAX_CARDINAL_DIGITS = 15

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}


def _plain(words: str) -> str:
    return words.replace("-", " ").replace(",", "")


def digits(text: str) -> str:
    """Digit by digit: "0145" -> "zero one four five"."""
    return " ".join(_DIGIT_NAMES[int(char)] for char in text if char in "0123456789")


def cardinal(text: str) -> str:
    """ "1,204" -> "one thousand two hundred and four". Leading zeros and very long numbers go digit by digit."""
    bare = text.replace(",", "")
    if (len(bare) > 1 and bare[0] == "0") or len(bare) > MAX_CARDINAL_DIGITS:
        return digits(bare)
    return _plain(num2words(int(bare)))


def ordinal(text: str) -> str:
    """ "21" -> "twenty first"."""
    return _plain(num2words(int(text.replace(",", "")), to="ordinal"))


def decimal(text: str) -> str:
    """ "3.14" -> "three point one four"; several dots (versions) read each part: "2.10.1" -> "two point ten …"."""
    parts = text.replace(",", "").split(".")
    if len(parts) > 2:
        return " point ".join(cardinal(part) for part in parts)
    whole, fraction = parts
    return f"{cardinal(whole or '0')} point {digits(fraction)}"


def year(text: str) -> str:
    """ "1999" -> "nineteen ninety nine", "2005" -> "two thousand and five"."""
    return _plain(num2words(int(text), to="year"))


def money(symbol: str, amount: str) -> str:
    """("$", "4.75") -> "four dollars and seventy five cents"."""
    one, many, minor_one, minor_many = _CURRENCIES[symbol]
    match = re.fullmatch(r"([\d,]*)(?:\.(\d+))?", amount)
    assert match is not None, f"not an amount: {amount!r}"
    whole, fraction = match.group(1).replace(",", "") or "0", match.group(2)
    if fraction is not None and (len(fraction) != 2 or not minor_one):
        return f"{decimal(f'{whole}.{fraction}')} {many}"
    words = f"{cardinal(whole)} {one if int(whole) == 1 else many}"
    if not fraction or int(fraction) == 0:
        return words
    minor = f"{cardinal(str(int(fraction)))} {minor_one if int(fraction) == 1 else minor_many}"
    return minor if int(whole) == 0 else f"{words} and {minor}"
