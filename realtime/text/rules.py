"""Rewriting rules: a pattern and what takes its place, applied one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

__all__ = ["Rule", "rewrite", "rule"]

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


def rule(pattern: str, replacement: str | Callable[[re.Match[str]], str], flags: int = 0) -> Rule:
    """Patterns spell out `[0-9]`: `\\d` would take the digits of every script, and those are not spoken in English."""
    return re.compile(pattern, flags), replacement


def rewrite(rules: Iterable[Rule], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
