"""Languages beside English: how they are spelled out, who speaks them, and which lines each speaker gets.

The teacher has two good styles of Spanish and one of French. A voice is a native style with a share of another, which
changes its timbre and leaves its accent; each has a name of our own (see the model card).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.training.corpus import ENGLISH, NAMED_SHARE, NAMED_VOICES, CorpusLine, draw_speed, line_of

__all__ = ["FURTHER", "Further", "assign_further", "language_of", "named_voices"]

BLENDS = 60
OTHER_WEIGHTS = (0.2, 0.5)
"""Of the style that a blend adds to a native one of weight 1."""


@dataclass(frozen=True, slots=True)
class Further:
    reader: str
    """espeak-ng's name of the language."""
    bible: str
    """Which translation of the package the verses are from."""
    natives: tuple[str, ...]
    """The teacher's styles of this language."""
    voices: Mapping[str, str]
    """Name -> blend."""


FURTHER = {
    "es": Further("es", "v", ("ef_dora", "em_alex"), {"jara": "ef_dora:2+if_sara:1", "olmo": "em_alex:2+im_nicola:1"}),
    "fr": Further("fr-fr", "l", ("ff_siwis",), {"mimosa": "ff_siwis:2+bf_emma:1", "tilleul": "ff_siwis:1+bm_george:1"}),
}


def named_voices(language: str) -> Mapping[str, str]:
    """Name -> blend of the voices of a language, English too."""
    return FURTHER[language].voices if language in FURTHER else NAMED_VOICES


def language_of(voice: str) -> str:
    """The tag of the language that a voice of the corpus speaks, be it named or a blend."""
    for tag, taught in FURTHER.items():
        if voice in taught.voices or voice.startswith(_blends_of(tag)):
            return tag
    return "en"


def _blends_of(language: str) -> str:
    """What the names of its blends begin with."""
    return f"blend-{language}-"


def assign_further(spelled: Iterable[list], language: str, seed: int) -> list[CorpusLine]:
    """Each spelled-out sentence, `[text, phonemes, at]`, gets a voice and a pace. Blends are called `blend-es-07`, so
    that corpora of several languages can be mixed."""
    chance, taught = random.Random(seed), FURTHER[language]
    styles = {f"{_blends_of(language)}{number:02}": _blend(chance, taught) for number in range(BLENDS)}
    blends, named = list(styles), list(taught.voices)
    styles |= taught.voices
    lines = []
    for row in spelled:
        voice = chance.choice(named if chance.random() < NAMED_SHARE else blends)
        lines.append(line_of(row, voice, styles[voice], draw_speed(chance)))
    chance.shuffle(lines)
    return lines


def _blend(chance: random.Random, taught: Further) -> str:
    native = chance.choice(taught.natives)
    others = [style for style in (*ENGLISH, *taught.natives) if style != native]
    return f"{native}:1.00+{chance.choice(others)}:{chance.uniform(*OTHER_WEIGHTS):.2f}"
