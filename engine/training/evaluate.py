"""How good a voice is: figures of a folder of clips, and gates with an exit status.

Three kinds of figure only together close the holes: a looped clip pleases the quality predictors, noise leaves the
recognisers unmoved, and reversed speech fails both.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt
import soundfile

from engine.hearing import Recogniser, at_hearing_rate, word_errors
from engine.training.clips import read_clips
from engine.training.judges import DistillMos, Dnsmos, Speakers

__all__ = [
    "GATES",
    "TEACHERS",
    "ClipScore",
    "Figures",
    "failed_gates",
    "gates_of",
    "score_folder",
    "shape_of",
    "summarise",
]

WINDOW_S = 0.01
SILENCE_DB = -40.0
"""Relative to the clip's loudest window."""
ABRUPT_DB = -12.0
"""A clip whose last 20 ms are louder than this, relative to its loudest window, was cut off."""
CHARS_PER_S = 14.0
PAUSES_S = 0.5
"""Expected length of a clip: characters at a calm pace, and half a second around them."""


@dataclass(frozen=True, slots=True)
class ClipScore:
    file: str
    kind: str
    words: int
    errors_base: int
    errors_tiny: int | None
    """None for other languages than English."""
    heard: str
    distillmos: float
    dnsmos: float
    similarity: float | None
    """Cosine to the mean of the reference clips of the same voice."""
    seconds: float
    lead_ms: float
    runs_away: bool
    is_cut: bool

    @property
    def voice(self) -> str:
        """As `SpokenClip.file` begins: voice, kind, number, seed."""
        return self.file.rsplit("-", 3)[0]


@dataclass(frozen=True, slots=True)
class Figures:
    language: str
    clips: int
    wer_base: float
    wer_tiny: float | None
    """Errors over words, all clips together; 0.05 is five per cent."""
    wer_by_kind: Mapping[str, float]
    wer_by_voice: Mapping[str, float]
    distillmos: float
    dnsmos: float
    similarity: float | None
    similarity_by_voice: Mapping[str, float]
    """Of the voices that have reference clips."""
    lead_ms_p95: float
    runaways: int
    cut: int
    bad_share: float
    """Clips with more than half of their words wrong, or that run away or are cut."""


GATES: dict[str, tuple[str, float]] = {
    "wer_base": ("<=", 0.05),
    "distillmos": (">=", 3.8),
    "dnsmos": (">=", 3.1),
    "similarity": (">=", 0.88),
    "lead_ms_p95": ("<=", 80.0),
    "runaways": ("<=", 0),
    "bad_share": ("<=", 0.02),
}
TEACHERS = {"es": {"wer_base": 0.102, "bad_share": 0.1}, "fr": {"wer_base": 0.159, "bad_share": 0.102}}
"""What the recogniser makes of the teacher's own clips (README): it misspells these languages, and words alone most of
all. A student's limit is the teacher's figure and English's limit on top."""


def gates_of(language: str) -> dict[str, tuple[str, float]]:
    """Name of a figure -> (sense, limit)."""
    allowed = TEACHERS.get(language, {})
    return {name: (sense, limit + allowed.get(name, 0.0)) for name, (sense, limit) in GATES.items()}


def failed_gates(figures: Figures) -> list[str]:
    """One line for each gate that is not met. Similarity counts where there are reference clips."""
    failed = []
    for name, (sense, limit) in gates_of(figures.language).items():
        value = getattr(figures, name)
        if value is not None and not (value <= limit if sense == "<=" else value >= limit):
            failed.append(f"{name} is {value:.3g}, must be {sense} {limit:.3g}")
    return failed


def score_folder(folder: Path, reference: Path | None = None, language: str = "en") -> list[ClipScore]:
    """Listen to every clip. Scores are kept in `scores.jsonl`, from which an interrupted run goes on."""
    kept_file = folder / "scores.jsonl"
    scores = (
        [ClipScore(**json.loads(line)) for line in kept_file.read_text().splitlines()] if kept_file.exists() else []
    )
    known = {score.file for score in scores}
    base, tiny, distill, dns, speakers = Recogniser("base"), Recogniser("tiny.en"), DistillMos(), Dnsmos(), Speakers()
    means = _voice_means(reference, speakers) if reference is not None else {}
    clips = read_clips(folder)
    random.Random(0).shuffle(clips)  # what an unfinished run has heard is a fair sample
    with kept_file.open("a") as kept:
        for number, clip in enumerate(clips, 1):
            if clip.file in known:
                continue
            pcm, rate_hz = soundfile.read(folder / clip.file, dtype="float32")
            sound = at_hearing_rate(pcm, rate_hz)
            heard = base.hear(sound, language)
            wrong, words = word_errors(clip.spoken, heard, language)
            seconds, lead_ms, runs_away, is_cut = shape_of(pcm, rate_hz, clip.spoken)
            mean = means.get(clip.voice)
            score = ClipScore(
                file=clip.file,
                kind=clip.kind,
                words=words,
                errors_base=wrong,
                errors_tiny=word_errors(clip.spoken, tiny.hear(sound))[0] if language == "en" else None,
                heard=heard,
                distillmos=distill.score(sound),
                dnsmos=dns.score(sound),
                similarity=None if mean is None else float(speakers.embed(sound) @ mean),
                seconds=seconds,
                lead_ms=lead_ms,
                runs_away=runs_away,
                is_cut=is_cut,
            )
            scores.append(score)
            kept.write(json.dumps(asdict(score)) + "\n")
            kept.flush()
            if number % 10 == 0:
                print(f"heard {number} of {len(clips)}", flush=True)
    return scores


def _voice_means(folder: Path, speakers: Speakers) -> dict[str, npt.NDArray[np.float32]]:
    by_voice: dict[str, list[npt.NDArray[np.float32]]] = {}
    for clip in read_clips(folder):
        if clip.kind != "reply":  # too short to embed
            pcm, rate_hz = soundfile.read(folder / clip.file, dtype="float32")
            by_voice.setdefault(clip.voice, []).append(speakers.embed(at_hearing_rate(pcm, rate_hz)))
    means = {voice: np.mean(vectors, axis=0) for voice, vectors in by_voice.items()}
    return {voice: mean / np.linalg.norm(mean) for voice, mean in means.items()}


def shape_of(pcm: npt.NDArray[np.float32], rate_hz: int, spoken: str) -> tuple[float, float, bool, bool]:
    """(seconds, leading silence in ms, whether it runs away, whether its end is cut) of float32 [N]."""
    seconds = len(pcm) / rate_hz
    window = int(WINDOW_S * rate_hz)
    power = np.square(pcm[: len(pcm) // window * window].reshape(-1, window)).mean(axis=1)
    if not len(power) or power.max() == 0:
        return seconds, seconds * 1000, False, False
    level_db = 10 * np.log10(power / power.max() + 1e-12)
    lead_ms = float(np.argmax(level_db > SILENCE_DB)) * WINDOW_S * 1000
    runs_away = seconds > 2 * (PAUSES_S + len(spoken) / CHARS_PER_S)
    return seconds, lead_ms, runs_away, bool(level_db[-2:].max() > ABRUPT_DB)


def summarise(scores: Iterable[ClipScore], language: str = "en") -> Figures:
    """Raises ValueError for no clips."""
    scores = list(scores)
    if not scores:
        raise ValueError("there are no clips to judge")
    similar = {
        voice: [s.similarity for s in theirs if s.similarity is not None and s.kind != "reply"]
        for voice, theirs in _grouped(scores, "voice").items()
    }
    all_similar = list(itertools.chain.from_iterable(similar.values()))
    bad = [s.runs_away or s.is_cut or 2 * s.errors_base > s.words for s in scores]
    return Figures(
        language=language,
        clips=len(scores),
        wer_base=_rate(scores, "errors_base"),
        wer_tiny=_rate(scores, "errors_tiny") if all(s.errors_tiny is not None for s in scores) else None,
        wer_by_kind={kind: _rate(group, "errors_base") for kind, group in _grouped(scores, "kind").items()},
        wer_by_voice={voice: _rate(group, "errors_base") for voice, group in _grouped(scores, "voice").items()},
        distillmos=fmean(s.distillmos for s in scores),
        dnsmos=fmean(s.dnsmos for s in scores),
        similarity=fmean(all_similar) if all_similar else None,
        similarity_by_voice={voice: fmean(values) for voice, values in similar.items() if values},
        lead_ms_p95=float(np.percentile([s.lead_ms for s in scores], 95)),
        runaways=sum(s.runs_away for s in scores),
        cut=sum(s.is_cut for s in scores),
        bad_share=fmean(bad),
    )


def _grouped(scores: list[ClipScore], by: str) -> dict[str, list[ClipScore]]:
    groups: dict[str, list[ClipScore]] = {}
    for score in scores:
        groups.setdefault(getattr(score, by), []).append(score)
    return groups


def _rate(scores: list[ClipScore], errors: str) -> float:
    return sum(getattr(s, errors) for s in scores) / sum(s.words for s in scores)
