"""What is written -> what is said. Pure and total: any string in, a speakable string out (maybe an empty one).

| written | spoken |
|---|---|
| `<|…|>`, `<tags>`, `[cues]` | removed (the bundled voice knows none) |
| `**bold**`, `_it_`, `` `code` ``, `# heading`, bullets, quotes, rules, fences | the text without the marks |
| `[label](link)`, tables | label; the cells with commas between |
| https://a.example/b_c?x=1 | a dot example slash b c |
| me_2@a.example, notes.txt | me underscore two at a dot example, notes dot txt |
| $4.75, US$5M, £3 million, 5-10 €, 99¢, $9/hr | four dollars and seventy five cents, five million US dollars, … |
| 3:15 pm, 15:30, 9 a.m., 10:45:30 | three fifteen PM, fifteen thirty, nine AM, … |
| 2026-03-14, Mar 14, 14 March, 3/14/2026, 25.12.2024 | March fourteenth, the fourteenth of March, … |
| 50%, 20 km/h, 5 m², 5°C, 3 GB, 6'2" | fifty percent, twenty kilometers per hour, … |
| 1st, 1/2, 2 1/2, 3-5, -7, 1990s | first, one half, two and a half, three to five, minus seven, nineteen nineties |
| 555-0100, (555) 010-0100, code 4821, 007 | digit by digit, a comma between groups |
| 1999, 1,204, 3.14, 2.1.1, 100k | nineteen ninety nine, one thousand two hundred and four, three point one four, … |
| Dr., e.g., etc., No. 5, U.S. | Doctor, for example, et cetera, number five, U S |
| &, +, =, <, ±, 3 × 4, x², @, # 5, ~5 | and, plus, equals, less than, …, three by four, x squared, … |
| emoji, :-) and other symbols | removed |
| curly quotes, repeated marks, dashes | straight quotes, one mark, a comma |

It works on one unit at a time. The table shows English; Spanish and French are done to the same extent, see
realtime.text.spanish and realtime.text.french. Ambiguous forms are read as an American, a Spaniard and a Frenchman
would. Other scripts pass through unchanged but for the symbols, or are romanised for a model that knows none.
"""

from __future__ import annotations

import re
import unicodedata

from realtime.text.english import ENGLISH
from realtime.text.language import Language
from realtime.text.romanizing import romanize
from realtime.text.rules import Rule, rewrite, rule

__all__ = ["normalize"]

_STYLED = re.compile(
    "[\uff01-\uff5e\u210a-\u2115\u2119-\u211d\u2124\u2128\u212c-\u2138\u2160-\u217f\u2460-\u24ff\ufb00-\ufb06"
    "\U0001d400-\U0001d7ff]+"
)
"""Letters and digits in another dress: full width, circled, bold, Roman numerals, ligatures."""
_QUOTES = dict.fromkeys("‘’′", "'") | dict.fromkeys("“”„«»″", '"')
_FRACTIONS = {
    "½": " 1/2", "⅓": " 1/3", "⅔": " 2/3", "¼": " 1/4", "¾": " 3/4", "⅛": " 1/8", "⅜": " 3/8", "⅝": " 5/8", "⅞": " 7/8",
}  # fmt: skip
_PLAIN_FORMS = {"…": "...", "\u00a0": " ", "\u2011": "-", "\u2044": "/"}
_TYPOGRAPHY = str.maketrans(_QUOTES | _FRACTIONS | _PLAIN_FORMS)

_SPACES: list[Rule] = [
    rule(r"[^\S\n]{2,}", " "),
    rule(r"\s*\n\s*", "\n"),
]

_TIDY: list[Rule] = [
    rule(r"\s*[—–]\s*", ", "),
    rule(r"\s+([,.;:!?)])", r"\1"),
    rule(r"\(\s+", "("),
    rule(r"\(\)|(['\"])\s*\1", ""),
    rule(r"([,;:])[\s,;:]*(?=[,;:.!?])", ""),
    rule(r"([,;:])\1+", r"\1"),
    rule(r"!{2,}", "!"),
    rule(r"[!?]{2,}", "?"),
    rule(r"[¿¡]{2,}", lambda m: min(m[0], key="¿¡".index)),
    rule(r"\.{2,}", "..."),
    rule(r"(?<=[a-z]),(?=[a-z])", ", "),
    rule(r"(^|\s)[,;:\-]+(?=\s|$)", r"\1"),
    rule(r"\s+", " "),
    rule(r"^[\s,;:)]+", ""),
]

_DROPPED = frozenset("*#`_|\\^~<>[]{}@&%•‣⁃†‡¶※")
_JOINERS = "\u200c\u200d"


def normalize(text: str, language: Language = ENGLISH, *, romanizes: bool = False) -> str:
    """Text as the model should read it. Never raises; the result holds none of * # ` _ and no control characters.
    `romanizes`: letters and digits of other scripts become Latin ones first."""
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    if not text.isascii():
        text = _STYLED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
        text = romanize(text) if romanizes else text
    text = rewrite(language.typography, rewrite(_SPACES, text)).translate(_TYPOGRAPHY)
    had_stop = text.rstrip().endswith(".")
    text = rewrite(language.marks, text)
    if any("0" <= char <= "9" for char in text):
        text = rewrite(language.numbers, text)
    text = rewrite(language.words, text)
    text = rewrite(_TIDY, _without_symbols(text, language.symbols)).strip()
    # "etc." and "p.m." bring a dot of their own, which may have ended the sentence as well.
    return f"{text}." if had_stop and text[-1:].isalnum() else text


def _without_symbols(text: str, symbols: frozenset[str]) -> str:
    """Letters, marks, digits, spaces and ordinary punctuation of any script stay; symbols and controls do not, except
    those of `symbols`."""
    kept: list[str] = []
    for char in text:
        category = unicodedata.category(char)
        if char in _JOINERS:
            # They join the letters of some scripts, and emoji.
            kept.append(char if kept and kept[-1].isalpha() else "")
        elif "\ufe00" <= char <= "\ufe0f" or category == "Me":
            kept.append("")  # the look of the character before
        else:
            is_kept = (char not in _DROPPED and (category[0] in "LMNPZ" or char in "\n\t")) or char in symbols
            kept.append(char if is_kept else " ")
    return "".join(kept)
