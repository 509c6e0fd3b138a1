"""Letters of other scripts in Latin ones, for models that were taught no others: Привет -> Privet, 今天 -> jin tian.

Best effort, letter by letter, by the tables of `anyascii`: Chinese without tones, Arabic and Hebrew with an "a" where
they write no vowel. It keeps such text from being met with silence.
"""

from __future__ import annotations

import re
import unicodedata

from anyascii import anyascii

__all__ = ["romanize"]

# From Greek on. Latin letters with accents, general punctuation and symbols stay as they are.
_OTHER = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u2c00-\U0003ffff]+")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_SEMITIC = re.compile("[\u0590-\u06ff\ufb1d-\ufefc]")
_THROAT = str.maketrans("'`", "aa")
"""What Arabic and Hebrew say in the throat, or leave to the vowel that is not written."""


def romanize(text: str) -> str:
    """Any text; what has no letter, digit or punctuation mark in it (emoji) stays for others to judge."""
    return text if text.isascii() else _OTHER.sub(_run, text)


def _run(match: re.Match[str]) -> str:
    made = ""
    is_after_consonant = False
    for char in match[0]:
        latin = _latin(char)
        is_consonant = bool(_SEMITIC.match(char)) and latin.isalpha() and not set(latin) & set("aeiou")
        made += f"a{latin}" if is_consonant and is_after_consonant else latin
        is_after_consonant = is_consonant
    return made


def _latin(char: str) -> str:
    kind = unicodedata.category(char)[0]
    if kind not in "LMNP":
        return char
    if _HAN.match(char):
        return f" {anyascii(char).lower()} "  # a syllable, and mostly a word
    if _SEMITIC.match(char):
        return anyascii(char).translate(_THROAT) or ("a" if kind == "L" else "")
    return anyascii(char).lower() if _HANGUL.match(char) else anyascii(char)
