"""The comparison of FP8 schemes, dry: every product that a CPU can run, and the figures of quality on a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from loadtest.micro.fp8_quality import ROUNDINGS, measure_quality
from loadtest.micro.fp8_schemes import KINDS, can_run, measure_speed
from tests.tiny_model import CUDA_CODEC, DIVISIBLE, write_tiny_model
from tests.unit.csrc.emulated import EmulatedKernels

SHAPES = {"wide": (256, 128), "deep": (128, 256)}
ROWS = [1, 16]
SUM_TOLERANCE = 0.004
"""Relative L2: sums are rounded to bf16."""


def run_once(work: Callable[[], None]) -> float:
    work()
    return 2.0


def test_every_kind_multiplies_the_numbers_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    kernels, cpu = EmulatedKernels(has_block_scales=True), torch.device("cpu")
    found = measure_speed(
        kernels, cpu, shapes=SHAPES, rows=ROWS, kinds=list(KINDS), time_us=run_once, cold_bytes=2 * 128 * 256
    )
    assert set(found) == {name for name, kind in KINDS.items() if can_run(kind, kernels, cpu)} == {*KINDS} - {"bsgemm"}
    assert "bsgemm: not on this device" in capsys.readouterr().out
    for name, shapes in found.items():
        for shape in SHAPES:
            assert list(shapes[shape]) == ROWS, f"{name} {shape}"
            for cell in shapes[shape].values():
                assert cell.wrong < SUM_TOLERANCE, name
                assert cell.lost < (SUM_TOLERANCE if name == "bf16" else 0.06), name
                assert cell.us == (2.0 if name == "bf16" else 1.0), "one run is shared by as many weights as are cold"
                assert cell.share_of_floor > 0


def test_a_card_without_block_scales_is_not_asked_for_them() -> None:
    cpu = torch.device("cpu")
    assert not can_run(KINDS["mxfp8"], EmulatedKernels(), cpu)
    assert can_run(KINDS["mxfp8 a16"], EmulatedKernels(), cpu)
    assert can_run(KINDS["bsgemm"], EmulatedKernels(), torch.device("cuda"))


def test_quality_tells_how_far_each_scheme_is_from_bf16(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model", config=DIVISIBLE, codec=CUDA_CODEC)
    rows = {row.scheme: row for row in measure_quality(folder, sentences=["Hi.", "Yes."])}
    assert list(rows) == list(ROUNDINGS)
    for row in rows.values():
        assert len(row.followed) == 2
        assert len(row.kl) == len(row.top1) == 4
        assert all(0 <= kl < 1 for kl in row.kl)
        assert all(0.3 < top1 <= 1 for top1 in row.top1)
    assert rows["fp16 inputs"].weight_error == 0
    assert rows["fp16 inputs"].kl[0] < rows["w8a16"].kl[0] < rows["tensor"].kl[0]
    assert 0.01 < rows["mxfp8"].weight_error < 0.05
