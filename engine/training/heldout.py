"""The sentences that quality is measured on. `data` keeps them out of the corpus."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ALSO_TRAINED", "HeldOut", "held_out", "is_held_out"]

_FILES = {"en": "heldout.toml", "es": "heldout-es.toml", "fr": "heldout-fr.toml"}
ALSO_TRAINED = frozenset({"Okay.", "No.", "Sí.", "Oui.", "Non."})
"""Words that an agent says all day: measured, because small models babble on them, and trained on for that reason."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    key: str
    """Kind and number, as in `question-03`."""
    kind: str
    text: str
    """What the server is sent."""
    spoken: str
    """What a listener should hear."""


def held_out(language: str = "en") -> list[HeldOut]:
    """All of them, in the order of the file."""
    kinds = tomllib.loads((Path(__file__).parent / _FILES[language]).read_text())
    found = []
    for kind, lines in kinds.items():
        pairs = lines.items() if isinstance(lines, dict) else ((line, line) for line in lines)
        found += [HeldOut(f"{kind}-{i:02}", kind, text, spoken) for i, (text, spoken) in enumerate(pairs, 1)]
    return found


def is_held_out(sentence: str) -> bool:
    """Whether the corpus must do without it, however it is punctuated and in whichever language."""
    return _plain(sentence) in _KEPT_OUT


def _plain(sentence: str) -> str:
    return " ".join(re.findall(r"[^\W_']+(?:'[^\W_']+)*", sentence.lower()))


_KEPT_OUT = frozenset(
    _plain(form) for language in _FILES for item in held_out(language) for form in (item.text, item.spoken)
) - frozenset(_plain(text) for text in ALSO_TRAINED)
