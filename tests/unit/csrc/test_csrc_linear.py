"""A product of the decode step in FP8 against the same in bf16, whatever the number of rows (fault 96)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.cuda.kernels import Kernels
from engine.cuda.linear import Fp8Linear, linear
from engine.cuda.ops import add_norm
from engine.quant.formats import PER_ROW, quantise
from tests.unit.csrc.emulated import EmulatedKernels, drawn
from tests.unit.csrc.test_csrc_transformer_kernels import EPS, activation, joined, poisoned

ODD_ROWS = (*range(1, 18), 31, 33, 63, 64, 65, 127, 255, 256, 257, 1000)
"""All small batches, and both sides of the tiles' edges."""
MIN_COSINE, MAX_ERROR = 0.999, 0.03


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


def fp8_and_bf16(kernels: Kernels | EmulatedKernels, rows: int, outputs: int, width: int) -> tuple[Tensor, Tensor]:
    """fp32 [rows, outputs] of one product of normal numbers: in FP8, inputs included, and in bf16."""
    random = torch.Generator().manual_seed(rows)
    weight = drawn(random, outputs, width).to(torch.bfloat16)
    product = linear([quantise(weight, PER_ROW)])
    assert isinstance(product, Fp8Linear)
    inputs, exact = activation(rows, width, fp8=True), poisoned(rows, width, dtype=torch.float32)
    ones = torch.ones(width, dtype=torch.bfloat16)
    add_norm(kernels, drawn(random, rows, width), None, ones, inputs, eps=EPS, normed=exact)
    out = product(kernels, inputs, poisoned(rows, 2, outputs))
    assert out.row_scale is not None
    in_fp8 = joined(out.values) * out.row_scale[:, None] * out.channel_scale
    return in_fp8, (exact.to(torch.bfloat16) @ weight.T).float()


def assert_near(in_fp8: Tensor, in_bf16: Tensor) -> None:
    assert torch.cosine_similarity(in_fp8, in_bf16).min() >= MIN_COSINE
    assert (in_fp8 - in_bf16).norm() / in_bf16.norm() <= MAX_ERROR


@pytest.mark.parametrize("rows", ODD_ROWS)
def test_fault_96_every_row_of_an_fp8_product_is_near_the_same_in_bf16(kernels: EmulatedKernels, rows: int) -> None:
    assert_near(*fp8_and_bf16(kernels, rows, 384, 256))
