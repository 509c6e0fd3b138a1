"""Weights on the FP8 grid: what rounding to it keeps, and that it survives every way to the device."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.quant.formats import PER_ROW, quantise
from engine.quant.model import is_product
from engine.stored_model import open_model
from engine.training.fp8_grid import onto_grid, put_on_grid

ROWS, WIDTH = 24, 96


@pytest.fixture
def random() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@pytest.fixture
def weight(random: torch.Generator) -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=random) * 0.05


@pytest.fixture
def inputs(random: torch.Generator) -> Tensor:
    """Inputs that vary together and unequally, as those of a trained model do."""
    mixing = torch.randn(WIDTH, WIDTH, generator=random) * torch.linspace(2, 0.1, WIDTH)
    return torch.randn(400, WIDTH, generator=random) @ mixing.T


def test_the_grid_survives_both_half_precisions_and_quantising(weight: Tensor, inputs: Tensor) -> None:
    grid = onto_grid(weight, inputs.T @ inputs)
    assert torch.equal(grid.half().float(), grid)
    assert torch.equal(grid.bfloat16().float(), grid)
    assert torch.equal(quantise(grid, PER_ROW).dequantised(), grid)


def test_what_is_on_the_grid_stays_where_it_is(weight: Tensor, inputs: Tensor) -> None:
    gram = inputs.T @ inputs
    grid = onto_grid(weight, gram)
    assert torch.equal(onto_grid(grid, gram), grid)


def test_the_products_come_out_nearer_than_by_rounding_each_weight(weight: Tensor, inputs: Tensor) -> None:
    def error(rounded: Tensor) -> float:
        return float((inputs @ (rounded - weight).T).square().mean())

    assert error(onto_grid(weight, inputs.T @ inputs)) < 0.5 * error(quantise(weight, PER_ROW).dequantised())


def test_a_row_of_zeros_stays_zero(inputs: Tensor) -> None:
    assert not onto_grid(torch.zeros(2, WIDTH), inputs.T @ inputs).any()


def test_a_folder_that_is_put_on_the_grid_is_its_own_fp8_form(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    before = open_model(tiny).tensors
    put_on_grid(folder, sentences=1)
    for name, tensor in open_model(folder).tensors.items():
        assert isinstance(tensor, Tensor)
        if is_product(name):
            assert torch.equal(quantise(tensor, PER_ROW).dequantised(), tensor.float()), name
        else:
            assert torch.equal(tensor, before[name]), name
