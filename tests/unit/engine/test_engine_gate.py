"""The gates: they hold where they should, fail where they must, and say why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.cuda.load import choose_fp8, kv_bytes_per_token
from engine.cuda.random_model import S2_PRO
from engine.gate.correctness import MAX_KL, CodebookAgreement, Report, compare
from engine.gate.decisions import Difference, differences, forced_logits, greedy, margin_noise
from engine.gate.performance import BASELINE, judge, read_baseline
from engine.load import load_model
from engine.prompt import PromptBuilder
from engine.tokenizer import Tokenizer
from realtime.__main__ import main


def test_the_committed_baseline_has_what_the_gate_needs() -> None:
    assert set(read_baseline(BASELINE)) >= {"1", "4", "16", "64", "128"}
    facts = json.loads(BASELINE.read_text())
    assert all(facts[name] for name in ("machine", "commit", "command"))


def test_speed_may_fall_by_five_percent_and_no_more_and_may_always_rise() -> None:
    baseline = {"1": 100.0, "4": 100.0, "16": 100.0, "64": 100.0}
    held = judge({"1": 95.0, "4": 10.0, "16": 300.0, "64": 100.0}, baseline)
    assert all(verdict.has_passed for verdict in held), "batch 4 is told and not gated"
    fallen = judge({"1": 94.9, "4": 100.0, "16": 100.0, "64": 90.0}, baseline)
    assert [verdict.batch for verdict in fallen if not verdict.has_passed] == ["1", "64"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"decode_frames_per_s": {"1": "fast"}}', '{"decode_frames_per_s": {"1": 3}}']
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"baseline\.json"):
        read_baseline(path)


def test_each_breach_of_correctness_is_named() -> None:
    good = [CodebookAgreement(0, 0.001, 0.99)]
    equal: list[list[Difference]] = [[]] * 6
    assert Report([40] * 6, equal, 0.1, good, 0.0).failures() == []
    assert Report([5] * 6, equal, 0.1, good, None).failures() == []
    (other,) = Report([2] * 6, [[], [Difference(2, 5, 0.3)], [], [], [], []], 0.1, good, None).failures()
    assert "sentence 1, frame 2, codebook 5" in other
    (drift,) = Report([5] * 6, equal, 0.1, [CodebookAgreement(3, MAX_KL * 2, 0.99)], None).failures()
    assert "codebook 3" in drift
    (words,) = Report([5] * 6, equal, 0.1, good, 0.3).failures()
    assert "words" in words


def test_a_token_that_bf16_leaves_open_is_no_breach_on_either_side_of_the_tie() -> None:
    good = [CodebookAgreement(0, 0.001, 0.99)]
    for margin, breaches in ((0.09, 0), (-0.09, 0), (0.11, 1), (-0.11, 1)):
        report = Report([0] * 6, [[Difference(0, 1, margin)], [], [], [], [], []], 0.1, good, None)
        assert len(report.failures()) == breaches


def test_a_model_is_compared_with_itself_in_fp8(tiny: Path) -> None:
    report = compare(tiny, "cpu", listens=False)
    assert len(report.followed) == 6
    assert [row.codebook for row in report.codebooks] == [0, 1, 2, 3]
    assert all(0 <= row.kl < 1 and 0.3 < row.top1 <= 1 for row in report.codebooks)
    assert any(row.kl > 0 for row in report.codebooks), "FP8 rounds: equal logits would mean that nothing was rounded"


def test_a_gate_that_fails_exits_with_one(tiny: Path, tmp_path: Path) -> None:
    """A random model has flat distributions, so its FP8 form leaves the greedy path."""
    figures = tmp_path / "gate.json"
    assert main(["gate", "correctness", "--no-listen", "--model", str(tiny), "--json", str(figures)]) == 1
    assert set(json.loads(figures.read_text())) == {"followed", "differences", "noise", "kl", "top1", "word_difference"}


def test_a_gate_that_cannot_be_tried_exits_with_two_and_says_why(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    converted = tmp_path / "fp8"
    assert main(["convert", str(tiny), str(converted), "--scheme", "channels"]) == 0
    assert main(["gate", "correctness", "--no-listen", "--model", str(converted)]) == 2
    assert "is in FP8 (channels): the gate compares from the checkpoint it was made from" in capsys.readouterr().err
    assert main(["gate", "correctness", "--no-listen", "--model", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
    assert main(["gate", "correctness", "--no-listen", "--model", str(tiny), "--kv-cache", "fp8"]) == 2
    assert "an FP8 KV cache needs --device cuda" in capsys.readouterr().err


def test_big_models_are_served_in_fp8_unless_told_otherwise() -> None:
    assert choose_fp8(S2_PRO, "auto")
    assert not choose_fp8(S2_PRO, "bf16")
    assert kv_bytes_per_token(S2_PRO) == 36 * 2 * 8 * 128 * 2


@torch.inference_mode()
def test_every_frame_of_the_path_is_judged_and_a_difference_ends_only_its_own_frame(tiny: Path) -> None:
    model, codec = load_model(tiny), Codec.load(tiny)
    backend = ReferenceBackend(model, codec, slots=1, context_tokens=256)
    prompt = PromptBuilder(Tokenizer(tiny), codec.config.n_codebooks).turn("Hello.")
    own = greedy(backend, prompt, 4)
    assert own.shape[1] == 4
    assert differences(backend, prompt, own, forced_logits(model, prompt, own), model.semantic_begin) == []
    path = own.copy()
    path[2, 1] = (path[2, 1] + 1) % model.config.residual_codebook_size
    logits = forced_logits(model, prompt, path)
    first, *later = differences(backend, prompt, path, logits, model.semantic_begin)
    assert (first.frame, first.codebook) == (1, 2)
    assert first.margin < 0, "the model prefers its own token to the one on the path"
    assert all(d.frame > 1 for d in later)


@torch.inference_mode()
def test_the_noise_of_margins_is_that_of_bf16_rounding_and_leaves_the_model_as_it_was(tiny: Path) -> None:
    model = load_model(tiny)
    prompt = np.zeros((1 + model.config.num_codebooks, 5), np.int64)
    path = np.ones((model.config.num_codebooks, 3), np.int64)
    exact = forced_logits(model, prompt, path)
    noise = margin_noise(model, prompt, path, exact)
    spread = max(float(row.std()) for row in exact)
    assert 0 < noise < 0.1 * spread
    assert all(torch.equal(a, b) for a, b in zip(forced_logits(model, prompt, path), exact, strict=True))
