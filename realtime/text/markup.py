"""Markup -> the text it marks: Markdown as language models write it, tags, cues, control strings.

A cue in brackets and a tag are removed, because the bundled voice was taught none: read out they would be worse.
"""

from __future__ import annotations

import html
import re

from realtime.text.rules import Rule, rule

__all__ = ["markup"]


def _table_row(match: re.Match[str]) -> str:
    cells = [cell.strip() for cell in match[1].split("|")]
    return ", ".join(cell for cell in cells if cell.strip(":- ")) + "."


def markup(times: str) -> list[Rule]:
    """`times`: what is said for the star between two numbers."""
    return [*_TAGS, rule(r"(?<=[0-9])\s?\*\s?(?=[0-9])", f" {times} "), *_MARKDOWN]


_TAGS: list[Rule] = [
    # Entities first: what they spell is markup like any other.
    rule(r"&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]{1,6});", lambda m: html.unescape(m[0])),
    rule(r"<\|[^|>]{0,80}\|>", " "),
]

_MARKDOWN: list[Rule] = [
    rule(r"!?\[([^\[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"\n]*\")?\)", r"\1"),
    rule(r"\[([^\[\]\n]*)\]\[[^\[\]\n]*\]", r"\1"),
    rule(r"</?[A-Za-z!][^<>]{0,200}>", " "),
    rule(r"\[[^\[\]]{0,200}\]", " "),
    rule(r"^\s*(?:```\w*|~~~\w*)\s*$", " ", re.MULTILINE),
    rule(r"^[ \t]*(?:[-*_][ \t]*){3,}$", " ", re.MULTILINE),
    rule(r"^[ \t]{0,12}(?:#{1,6}[ \t]+|(?:>[ \t]?)+|[-*+•‣◦][ \t]+)", "", re.MULTILINE),
    rule(r"^[ \t]*\|?(?:[ \t]*:?-{3,}:?[ \t]*\|)+[ \t:-]*$", " ", re.MULTILINE),
    rule(r"^[ \t]*\|(.*)\|[ \t]*$", _table_row, re.MULTILINE),
    rule(r"\s*\|+\s*", ", "),
    rule(r"\*+|`+|~~+", ""),
    rule(r"(?<![A-Za-z0-9])_+(?=\S)|(?<=\S)_+(?![A-Za-z0-9])", ""),
    # A line is a sentence, whether it has a stop or not.
    rule(r"(?<=[\w)\"'])[ \t]*\n\s*", ". "),
    # Faces made of marks.
    rule(r"(?<!\S)(?:[:;=]['-]?[()DPp/|]+|<3+)(?=\s|$|[.,!?])", " "),
]
