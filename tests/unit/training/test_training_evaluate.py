"""Evaluation: the shape of clips, the figures, the gates, and folders that resume."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from engine.training.clips import SpokenClip, read_clips, serving, write_clip
from engine.training.evaluate import TEACHERS, ClipScore, Figures, failed_gates, shape_of, summarise

RATE_HZ = 24_000
GOOD = ClipScore(
    file="willow-plain-01-0.flac",
    kind="plain",
    words=10,
    errors_base=0,
    errors_tiny=0,
    heard="",
    distillmos=4.4,
    dnsmos=3.3,
    similarity=0.93,
    seconds=2.0,
    lead_ms=40.0,
    runs_away=False,
    is_cut=False,
)


def tone(seconds: float, *, lead_s: float = 0.0, tail_s: float = 0.0) -> np.ndarray:
    sound = np.sin(np.arange(int(seconds * RATE_HZ)) * 0.1).astype(np.float32) * 0.3
    return np.pad(sound, (int(lead_s * RATE_HZ), int(tail_s * RATE_HZ)))


def test_leading_silence_is_measured_to_a_window() -> None:
    _, lead_ms, _, _ = shape_of(tone(1.0, lead_s=0.25, tail_s=0.1), RATE_HZ, "Seventeen letters.")
    assert lead_ms == pytest.approx(250, abs=10)


def test_a_clip_that_stops_in_full_voice_is_cut_and_one_that_fades_is_not() -> None:
    assert shape_of(tone(1.0), RATE_HZ, "Seventeen letters.")[3]
    assert not shape_of(tone(1.0, tail_s=0.1), RATE_HZ, "Seventeen letters.")[3]


def test_a_reply_that_babbles_runs_away_and_one_that_does_not_is_fine() -> None:
    assert shape_of(tone(2.0), RATE_HZ, "No.")[2]
    assert not shape_of(tone(0.6), RATE_HZ, "No.")[2]


def test_silence_is_all_lead() -> None:
    assert shape_of(np.zeros(RATE_HZ, np.float32), RATE_HZ, "No.") == (1.0, 1000.0, False, False)


def test_error_rates_pool_words_over_clips() -> None:
    figures = summarise([GOOD, replace(GOOD, kind="reply", words=1, errors_base=1)])
    assert figures.wer_base == pytest.approx(1 / 11)
    assert figures.wer_by_kind == {"plain": 0.0, "reply": 1.0}
    assert figures.bad_share == 0.5


def test_good_clips_meet_every_gate() -> None:
    assert failed_gates(summarise([GOOD])) == []


@pytest.mark.parametrize(
    ("fault", "gate"),
    [
        ({"errors_base": 1}, "wer_base"),
        ({"distillmos": 3.7}, "distillmos"),
        ({"dnsmos": 3.0}, "dnsmos"),
        ({"similarity": 0.8}, "similarity"),
        ({"lead_ms": 90.0}, "lead_ms_p95"),
        ({"runs_away": True}, "runaways"),
        ({"is_cut": True}, "bad_share"),
    ],
)
def test_each_fault_fails_its_gate(fault: dict[str, float], gate: str) -> None:
    assert any(line.startswith(gate) for line in failed_gates(summarise([replace(GOOD, **fault)])))


def test_figures_tell_the_voices_apart() -> None:
    other = replace(GOOD, file="blend-es-07-name-02-1.flac", words=30, errors_base=3, similarity=None)
    figures = summarise([GOOD, other])
    assert figures.wer_by_voice == {"willow": 0.0, "blend-es-07": 0.1}
    assert figures.similarity_by_voice == {"willow": 0.93}


@pytest.mark.parametrize("language", TEACHERS)
def test_a_student_as_good_as_its_teacher_passes_in_every_language(language: str) -> None:
    """The recogniser misspells the teacher as well: English's limits would fail it."""
    as_the_teacher = {**asdict(summarise([GOOD], language)), **TEACHERS[language]}
    assert failed_gates(Figures(**as_the_teacher)) == []
    assert failed_gates(Figures(**{**as_the_teacher, "language": "en"})) != []
    worse = {**as_the_teacher, "wer_base": TEACHERS[language]["wer_base"] + 0.06}
    assert [line.split()[0] for line in failed_gates(Figures(**worse))] == ["wer_base"]


def test_without_reference_clips_similarity_is_no_gate() -> None:
    assert failed_gates(summarise([replace(GOOD, similarity=None)])) == []


def test_no_clips_are_an_error() -> None:
    with pytest.raises(ValueError, match="no clips"):
        summarise([])


def test_a_folder_of_clips_reads_as_it_was_written(tmp_path: Path) -> None:
    clips = [SpokenClip(f"plain-{i:02}", "plain", "Hello there.", "willow", i) for i in range(3)]
    for clip in clips:
        write_clip(tmp_path, clip, np.zeros(2400, np.int16), RATE_HZ)
    assert [asdict(clip) for clip in read_clips(tmp_path)] == [asdict(clip) for clip in clips]
    assert all((tmp_path / clip.file).exists() for clip in clips)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"did not become ready: .*nothing is missing"),
        serving(tmp_path / "nothing"),
    ):
        pass
