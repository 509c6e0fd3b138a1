"""Who says what: the corpus as a list of lines, before any sound. Deterministic for a seed.

The voices are blends of the teacher's styles under our own names (see the model card): eight that ship, and many
unnamed ones from which the student learns to follow a reference clip.
"""

from __future__ import annotations

import itertools
import json
import lzma
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "BRITISH",
    "ENGLISH",
    "NAMED_SHARE",
    "NAMED_VOICES",
    "CorpusLine",
    "assign",
    "draw_speed",
    "line_of",
    "mix",
    "read_corpus",
    "write_corpus",
]

NAMED_VOICES = {
    "willow": "af_heart:2+af_sarah:1",
    "hazel": "af_kore:2+af_nova:1",
    "linden": "af_sarah:1+af_alloy:1",
    "ivy": "bf_emma:2+bf_isabella:1",
    "rowan": "am_michael:2+am_fenrir:1",
    "cedar": "am_fenrir:1+am_eric:1",
    "alder": "am_puck:2+am_liam:1",
    "oak": "bm_george:2+bm_fable:1",
}
BRITISH = ("ivy", "oak")
"""These read British phonemes."""

BLENDS = 240
NAMED_SHARE = 0.62
ENGLISH = (
    "af_heart af_sarah af_nova af_alloy af_sky af_kore af_river af_jessica af_aoede af_bella "
    "am_michael am_echo am_adam am_onyx am_liam am_eric am_fenrir am_puck "
    "bf_emma bf_isabella bf_lily bf_alice bm_fable bm_daniel bm_george bm_lewis"
).split()
FOREIGN = "ef_dora em_alex ff_siwis if_sara im_nicola pf_dora pm_alex".split()


@dataclass(frozen=True, slots=True)
class CorpusLine:
    text: str
    phonemes: str
    words: list[tuple[int, int]]
    """(index of the word's first character, how many phonemes it has), in order."""
    voice: str
    """A named voice, or `blend-N`."""
    style: str
    speed: float


def _blends(chance: random.Random) -> list[str]:
    """Mixtures of two or three styles, four of five English only."""
    made = []
    for _ in range(BLENDS):
        pool = ENGLISH if chance.random() < 0.8 else ENGLISH + FOREIGN * 3
        parts = chance.sample(pool, chance.choice((2, 3)))
        made.append("+".join(f"{part}:{chance.uniform(0.3, 1.0):.2f}" for part in dict.fromkeys(parts)))
    return made


def assign(american: Iterable[list], british: Iterable[list], seed: int) -> list[CorpusLine]:
    """Each spelled-out sentence, `[text, phonemes, at]`, gets a voice and a pace; British voices read theirs."""
    chance = random.Random(seed)
    blends = _blends(chance)
    us, gb = list(american), list(british)
    chance.shuffle(us)
    chance.shuffle(gb)
    spoken = []
    for spelled in us + gb:
        is_british = len(spoken) >= len(us)
        if is_british:
            voice = chance.choice(BRITISH)
        elif chance.random() < NAMED_SHARE:
            voice = chance.choice([name for name in NAMED_VOICES if name not in BRITISH])
        else:
            number = chance.randrange(BLENDS)
            voice = f"blend-{number:03}"
        style = NAMED_VOICES.get(voice) or blends[int(voice.removeprefix("blend-"))]
        spoken.append(line_of(spelled, voice, style, draw_speed(chance)))
    chance.shuffle(spoken)
    return spoken


def draw_speed(chance: random.Random) -> float:
    """Of a line: mostly the voice's own."""
    return 1.0 if chance.random() < 0.7 else round(chance.uniform(0.85, 1.2), 2)


def line_of(spelled: list, voice: str, style: str, speed: float) -> CorpusLine:
    """`spelled`: `[text, phonemes, at]`, with the index of its word's first character for each phoneme."""
    text, phonemes, at = spelled
    words = [(start, len(list(group))) for start, group in itertools.groupby(at)]
    return CorpusLine(text, phonemes, words, voice, style, speed)


def mix(corpora: Iterable[list[CorpusLine]], seed: int) -> list[CorpusLine]:
    """Corpora of several languages as one, shuffled: whoever takes the first lines gets a fair share of each."""
    lines = list(itertools.chain.from_iterable(corpora))
    random.Random(seed).shuffle(lines)
    return lines


def write_corpus(lines: list[CorpusLine], path: Path) -> None:
    rows = ([line.text, line.phonemes, line.words, line.voice, line.style, line.speed] for line in lines)
    text = "\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    path.write_bytes(lzma.compress(text.encode()))


def read_corpus(path: Path) -> list[CorpusLine]:
    rows = map(json.loads, lzma.decompress(path.read_bytes()).decode().splitlines())
    return [CorpusLine(text, ph, [tuple(w) for w in words], *rest) for text, ph, words, *rest in rows]
