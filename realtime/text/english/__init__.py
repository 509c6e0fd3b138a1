"""English, as Americans read it."""

from __future__ import annotations

from realtime.text.addresses import AddressWords, addresses
from realtime.text.english.abbreviations import ABBREVIATIONS
from realtime.text.english.dates import DATES
from realtime.text.english.quantities import QUANTITIES
from realtime.text.english.words import WORDS
from realtime.text.language import Language
from realtime.text.markup import markup
from realtime.text.rules import rule

__all__ = ["ENGLISH"]

_ADDRESS_WORDS = AddressWords("dot", "slash", "at", "underscore", "plus", "dash")

ENGLISH = Language(
    "en",
    ABBREVIATIONS,
    typography=(rule(r"(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))", ","),),
    marks=Language.join(markup("times"), addresses(_ADDRESS_WORDS)),
    numbers=Language.join(DATES, QUANTITIES),
    words=tuple(WORDS),
)
