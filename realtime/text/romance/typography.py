"""Spaces and quotes as Spanish and French set them."""

from __future__ import annotations

from realtime.text.romance.numbers import SEPARATOR
from realtime.text.rules import Rule, rule

__all__ = ["TYPOGRAPHY"]

TYPOGRAPHY: list[Rule] = [
    rule(r"«\s+", "«"),
    rule(r"\s+»", "»"),
    rule(r"(?<=[0-9])[\u2009\u202f](?=[0-9]{3}(?![0-9]))", SEPARATOR),
]
