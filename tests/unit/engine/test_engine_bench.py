"""The bench counts what was spoken, and refuses what cannot run."""

from __future__ import annotations

import json

import pytest

from engine.api import Prefill, PromptTooLong
from engine.bench import measure, run_bench
from engine.null import NullEngine


def test_every_frame_of_every_text_is_counted_once() -> None:
    said: list[str] = []

    def frames_of(request: Prefill) -> int:
        said.append(request.text or "")
        return 5

    engine = NullEngine(slots=3, frames_of=frames_of)
    level = measure(engine, 3, 12)
    assert level.utterances == 12
    assert level.frames == 12 * 5
    assert level.audio_s == pytest.approx(60 * engine.limits.frame_s)
    assert len(level.prefill_ms) == len(level.first_frame_ms) == 12
    assert len(set(said)) > 3
    assert level.figures()["frames"] == 60


def test_texts_without_a_frame_and_texts_that_never_end_come_to_an_end() -> None:
    silent = measure(NullEngine(slots=1, frames_of=lambda _: 0), 1, 3)
    assert (silent.frames, silent.first_frame_ms, len(silent.prefill_ms)) == (0, [], 3)
    endless = measure(NullEngine(slots=2, frames_of=lambda _: 10**9), 2, 4)
    assert 0 < endless.frames < 4 * 200


def test_paced_streams_speak_everything_too() -> None:
    assert measure(NullEngine(slots=2, frames_of=lambda _: 6), 2, 2, lead_s=0.15).frames == 12


def test_the_last_line_is_the_measurement_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run_bench(NullEngine(slots=2, frames_of=lambda _: 4), [1, 2, 3], 3)
    said = capsys.readouterr()
    document = json.loads(said.out.splitlines()[-1])
    assert [(level["concurrency"], level["frames"]) for level in document["levels"]] == [(1, 12), (2, 12)]
    assert "3 streams need as many slots" in said.err


def test_more_streams_than_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="3 streams do not fit into 2 slots"):
        measure(NullEngine(slots=2), 3, 3)


def test_a_failing_prefill_ends_the_run_with_its_own_error() -> None:
    class Full(NullEngine):
        def prefill(self, request: Prefill):  # type: ignore[no-untyped-def]
            if request.text is not None:
                raise PromptTooLong("no room for 9 tokens")
            return super().prefill(request)

    with pytest.raises(PromptTooLong, match="9 tokens"):
        measure(Full(slots=1), 1, 1)
