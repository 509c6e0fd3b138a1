"""Numbers as English words. Hyphens become spaces: that is how the bundled voice was taught to read them.

Arguments are ASCII digits, with `,` between thousands and `.` before decimals where a function says so.
"""

from __future__ import annotations

import re

from num2words import num2words

__all__ = ["cardinal", "decade", "decimal", "digits", "fraction", "money", "number", "ordinal", "plural", "year"]

_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MAX_CARDINAL_DIGITS = 15

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₿": ("bitcoin", "bitcoins", "", ""),
}


def _plain(words: str) -> str:
    return words.replace("-", " ").replace(",", "")


def digits(text: str) -> str:
    """Digit by digit: "0145" -> "zero one four five". Anything else in `text` is skipped."""
    return " ".join(_DIGIT_NAMES[int(char)] for char in text if char in "0123456789")


def cardinal(text: str) -> str:
    """ "1,204" -> "one thousand two hundred and four". Leading zeros and very long numbers go digit by digit."""
    bare = text.replace(",", "")
    if (len(bare) > 1 and bare[0] == "0") or len(bare) > MAX_CARDINAL_DIGITS:
        return digits(bare)
    return _plain(num2words(int(bare)))


def ordinal(text: str) -> str:
    """ "21" -> "twenty first"."""
    bare = text.replace(",", "")
    return _plain(num2words(int(bare), to="ordinal")) if len(bare) <= MAX_CARDINAL_DIGITS else digits(bare)


def decimal(text: str) -> str:
    """ "3.14" -> "three point one four"; several dots (versions) read each part: "2.10.1" -> "two point ten …"."""
    parts = text.replace(",", "").split(".")
    if len(parts) > 2:
        return " point ".join(cardinal(part) for part in parts)
    whole, decimals = parts
    return f"{cardinal(whole or '0')} point {digits(decimals)}"


def number(text: str) -> str:
    """ "1,204" or "3.14" or ".5"."""
    return decimal(text) if "." in text else cardinal(text)


def year(text: str) -> str:
    """ "1999" -> "nineteen ninety nine", "2005" -> "two thousand and five"."""
    return _plain(num2words(int(text), to="year"))


def plural(words: str) -> str:
    """ "nineteen ninety" -> "nineteen nineties", "sixth" -> "sixths"."""
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def decade(text: str) -> str:
    """ "1990" -> "nineteen nineties", "80" -> "eighties"."""
    return plural(year(text) if len(text) == 4 else cardinal(text))


def fraction(numerator: str, denominator: str) -> str:
    """ "3", "4" -> "three quarters". What no clock or cake is cut into is read "over"."""
    top, bottom = int(numerator), int(denominator)
    if not 1 <= top < bottom or not (bottom <= 10 or bottom in (16, 32, 100)):
        return f"{cardinal(numerator)} over {cardinal(denominator)}"
    if bottom == 2:
        return "one half"
    part = "quarter" if bottom == 4 else ordinal(denominator)
    return f"{cardinal(numerator)} {part if top == 1 else plural(part)}"


def money(symbol: str, amount: str, scale: str = "", origin: str = "") -> str:
    """("$", "4.75") -> "four dollars and seventy five cents"; ("$", "5", "million", "US") -> "five million US
    dollars"."""
    one, many, minor_one, minor_many = _CURRENCIES[symbol]
    one, many = f"{origin} {one}".strip(), f"{origin} {many}".strip()
    match = re.fullmatch(r"([0-9,]*)(?:\.([0-9]+))?", amount)
    assert match is not None, f"not an amount: {amount!r}"
    whole, minor = match[1].replace(",", "") or "0", match[2]
    if scale:
        return f"{number(amount)} {scale} {many}"
    if minor is not None and (len(minor) != 2 or not minor_one):
        return f"{decimal(f'{whole}.{minor}')} {many}"
    words = f"{cardinal(whole)} {one if int(whole) == 1 else many}"
    if not minor or int(minor) == 0:
        return words
    cents = f"{cardinal(str(int(minor)))} {minor_one if int(minor) == 1 else minor_many}"
    return cents if int(whole) == 0 else f"{words} and {cents}"
