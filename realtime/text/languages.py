"""The languages whose figures and abbreviations are read, and what happens to text in others.

A tag of BCP 47 chooses by its primary subtag ("es-MX" is Spanish); three-letter codes of the three are understood too.
Text in a language that has no rules here keeps its figures, abbreviations and common symbols: a model that knows the
language reads them, and English words among them would be wrong for certain. Markup, emoji and controls go as ever.
Where nobody says a language it is English, which the bundled voice speaks.
"""

from __future__ import annotations

import re

from realtime.text.boundaries import Abbreviations
from realtime.text.english import ENGLISH
from realtime.text.french import FRENCH
from realtime.text.language import Language
from realtime.text.markup import markup
from realtime.text.spanish import SPANISH

__all__ = ["LANGUAGES", "is_language_tag", "language_of"]

LANGUAGES = {language.tag: language for language in (ENGLISH, SPANISH, FRENCH)}

_THREE_LETTERS = {"eng": "en", "spa": "es", "fra": "fr", "fre": "fr"}
_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")

_OTHER = Language(
    "",
    Abbreviations(never_final=frozenset(), maybe_final=frozenset(), numbering=frozenset()),
    typography=(),
    marks=Language.join(markup("×")),
    numbers=(),
    words=(),
    symbols=frozenset("%&@+=<>±×÷°€$£¥₹₩§²³/"),
)


def is_language_tag(tag: str) -> bool:
    return _TAG.fullmatch(tag) is not None


def language_of(tag: str | None) -> Language:
    """Of any string; None or an empty one: English."""
    if not tag:
        return ENGLISH
    primary = re.split("[-_]", tag, maxsplit=1)[0].lower()
    return LANGUAGES.get(_THREE_LETTERS.get(primary, primary), _OTHER)
