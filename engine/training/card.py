"""The model card that `export` writes, and the notices that its sources ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.training.further import language_of

__all__ = ["card", "notices"]

LANGUAGES = {"en": "English", "es": "Spanish", "fr": "French"}
NOTICES = {"Apache-2.0": "kokoro.txt", "Princeton WordNet licence": "wordnet.txt"}
"""By the licence of a source in the manifest; the others ask for none."""


def card(
    name: str,
    manifest: Mapping[str, Any],
    checkpoints: Mapping[str, Mapping[str, Any]],
    figures: Sequence[Mapping[str, Any]],
) -> str:
    """Markdown: what it is, how it was made, what was measured.

    `manifest` as `data` writes it; `checkpoints`: title -> the checkpoint's facts, empty where nothing was trained;
    `figures` as `evaluate` writes them, one for each language.
    """
    tags = manifest.get("languages", ["en"])
    languages = ", ".join(f"{LANGUAGES[tag]} (`{tag}`)" for tag in tags)
    lines = [f"# {name}", "", "A small voice in the Fish S2 format. Made by `python -m engine.training`.", ""]
    lines += [f"Languages: {languages}.", "", *_voices(manifest), *_sources(manifest)]
    for title, facts in checkpoints.items():
        lines += [f"## {title}", "", *(_stretches(facts) if facts else _UNCHANGED), ""]
    lines += ["## Figures", "", *([] if figures else ["Not measured yet: `python -m engine.training evaluate`.", ""])]
    for measured in figures:
        lines += [f"### {LANGUAGES[measured['language']]}", "", *_table(measured), ""]
    return "\n".join(lines)


def notices(manifest: Mapping[str, Any]) -> str:
    """What the licences of the manifest's sources want to be kept with everything made from them."""
    licences = dict.fromkeys(source["licence"] for source in manifest["sources"])
    files = [Path(__file__).parent / "notices" / NOTICES[licence] for licence in licences if licence in NOTICES]
    return f"\n{'-' * 78}\n\n".join(file.read_text() for file in files)


_UNCHANGED = ["Unchanged from the model it was exported with."]


def _voices(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Voices", "")
    yield "Each is a blend of the teacher's styles, weighted as shown, under a name of our own."
    yield from ("", "| voice | language | blend of styles | sentences |", "|---|---|---|---|")
    for voice, style in manifest["voices"].items():
        yield f"| {voice} | {LANGUAGES[language_of(voice)]} | {style} | {manifest['lines_of'][voice]:,} |"
    yield ""
    yield f"From {manifest['lines_of']['blends']:,} more sentences in blends without names it learned to follow a clip."
    yield ""


def _sources(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Sources and licences", "", "| what | from | licence |", "|---|---|---|")
    yield from (f"| {source['what']} | {source['from']} | {source['licence']} |" for source in manifest["sources"])
    yield from ("", "NOTICE holds the texts that go with them.", "")


def _stretches(facts: Mapping[str, Any]) -> Iterator[str]:
    """Of the checkpoint, and of those that it went on from, oldest first."""
    chain = [*facts["earlier"], facts]
    for number, stretch in enumerate(chain, 1):
        yield from (*([f"Stretch {number}:", ""] if len(chain) > 1 else []), *_table(stretch["stretch"]))
        yield f"| steps done | {stretch['steps']} |"
        yield f"| last losses | {json.dumps(stretch['log'][-1:])} |"
        yield from ([""] if number < len(chain) else [])


def _table(rows: Mapping[str, Any]) -> list[str]:
    """Of what is known; None is left out."""
    known = {name: value for name, value in rows.items() if value is not None}
    return ["| | |", "|---|---|", *(f"| {name} | {_shown(value)} |" for name, value in known.items())]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)
