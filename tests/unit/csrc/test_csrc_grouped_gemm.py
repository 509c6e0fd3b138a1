"""FP8 products with grouped scales against exact arithmetic on the numbers that the formats stand for."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from engine.cuda.grouped_gemm import grouped_gemm
from engine.quant.formats import (
    GROUPS_128,
    MX_32,
    PER_ROW,
    PER_TENSOR,
    SQUARES_128,
    Grouping,
    LayoutError,
    Quantised,
    quantise,
)
from tests.unit.csrc.emulated import EmulatedKernels, drawn

SUM_TOLERANCE = 2.0**-8 + 1e-5
"""Of a sum's magnitude: half a step of bf16, and what the order of fp32 sums makes."""
CANCELLED = 1e-5
"""Of the sum of magnitudes: where terms cancel, fp32 rounding of the terms stays."""
ROWS = [1, 8, 9, 17, 70]
PLACES = list(itertools.product(range(0, 64, 5), (0, 7, 8, 15), (0, 3, 7)))


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


def spread(seed: int, rows: int, width: int) -> Tensor:
    """Values whose groups differ by powers of two, so that a scale of another group shows."""
    random = torch.Generator().manual_seed(seed)
    sizes = 2.0 ** (3 * drawn(random, rows, width // 32)).round()
    return drawn(random, rows, width) * sizes.repeat_interleave(32, 1)


def poisoned(rows: int, outputs: int) -> Tensor:
    return torch.full((rows, outputs), torch.nan, dtype=torch.bfloat16)


def assert_product(out: Tensor, x: Tensor, weight: Tensor) -> None:
    """x and weight fp32: the numbers that were multiplied."""
    exact = x.double() @ weight.double().T
    sizes = x.double().abs() @ weight.double().abs().T
    assert bool(((out.double() - exact).abs() <= SUM_TOLERANCE * exact.abs() + CANCELLED * sizes).all())


def single_product(k: int, row: int, token: int) -> tuple[Tensor, Tensor, Tensor]:
    """x [8, 64], weight [16, 64] with one number each, and what comes out, [8, 16]."""
    x, weight, out = torch.zeros(8, 64), torch.zeros(16, 64), torch.zeros(8, 16)
    weight[row, k], x[token, k], out[token, row] = 3.0, 2.0**-20, 3 * 2.0**-20
    return x, weight, out


@pytest.mark.parametrize("grouping", [PER_ROW, PER_TENSOR, SQUARES_128, GROUPS_128, MX_32])
@pytest.mark.parametrize("rows", ROWS)
def test_weights_are_the_numbers_they_stand_for(kernels: EmulatedKernels, grouping: Grouping, rows: int) -> None:
    weight = quantise(spread(1, 128, 384), grouping)
    x = drawn(torch.Generator().manual_seed(rows), rows, 384).bfloat16()
    out = poisoned(rows, 128)
    grouped_gemm(kernels, x, weight, out)
    assert_product(out, x.float(), weight.dequantised())


def test_the_smallest_scale_of_all_is_a_subnormal_number(kernels: EmulatedKernels) -> None:
    weight = quantise(torch.full((16, 32), 2.0**-123), MX_32)
    assert int(weight.scale.view(torch.uint8).max()) == 0
    out = poisoned(1, 16)
    grouped_gemm(kernels, torch.full((1, 32), 2.0**60).bfloat16(), weight, out)
    assert torch.equal(out.float(), torch.full((1, 16), 2.0**-58))


def test_one_weight_and_one_activation_meet_wherever_they_stand(kernels: EmulatedKernels) -> None:
    """Every place along K, every row of a tile: a lane that takes its values or its scale from elsewhere shows."""
    for k, row, token in PLACES:
        out = poisoned(8, 16)
        x, weight, expected = single_product(k, row, token)
        grouped_gemm(kernels, x.bfloat16(), quantise(weight, MX_32), out)
        assert torch.equal(out.float(), expected)


def test_a_row_does_not_depend_on_the_rows_beside_it(kernels: EmulatedKernels) -> None:
    weight = quantise(spread(5, 32, 128), MX_32)
    x = spread(6, 20, 128).bfloat16()
    together, alone = poisoned(20, 32), poisoned(1, 32)
    grouped_gemm(kernels, x, weight, together)
    grouped_gemm(kernels, x[13:14], weight, alone)
    assert torch.equal(together[13:14], alone)


def test_scales_that_went_through_contiguous_multiply_the_same(kernels: EmulatedKernels) -> None:
    """The known trap, at the operation: whatever a copy does to a scale tensor, the product is right or refused."""
    weight, x = quantise(spread(7, 256, 256), SQUARES_128), drawn(torch.Generator().manual_seed(8), 4, 256).bfloat16()
    right, again = poisoned(4, 256), poisoned(4, 256)
    grouped_gemm(kernels, x, weight, right)
    grouped_gemm(kernels, x, Quantised(weight.values, weight.scale.contiguous().clone(), SQUARES_128), again)
    assert torch.equal(right, again)
    column_major = weight.scale.T.contiguous().T  # the same values behind other strides
    assert torch.equal(column_major, weight.scale)
    with pytest.raises(LayoutError, match=r"strides \[1, 2\]"):
        grouped_gemm(kernels, x, Quantised(weight.values, column_major, SQUARES_128), again)


def test_layouts_that_the_kernel_does_not_know_are_refused(kernels: EmulatedKernels) -> None:
    x = torch.zeros(2, 64, dtype=torch.bfloat16)
    with pytest.raises(LayoutError, match="multiples of 16 and 32"):
        grouped_gemm(kernels, x, quantise(torch.zeros(24, 64), PER_ROW), poisoned(2, 24))
    with pytest.raises(LayoutError, match="multiples of 16 and 32"):
        grouped_gemm(kernels, x[:, :48].contiguous(), quantise(torch.zeros(16, 48), PER_ROW), poisoned(2, 16))
    with pytest.raises(ValueError, match="x must be contiguous"):
        grouped_gemm(kernels, x.T.contiguous().T, quantise(torch.zeros(16, 64), PER_ROW), poisoned(2, 16))
    with pytest.raises(ValueError, match="out must be contiguous"):
        grouped_gemm(kernels, x, quantise(torch.zeros(16, 64), PER_ROW), poisoned(2, 17))
