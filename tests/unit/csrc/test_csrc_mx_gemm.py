"""MXFP8 on tensor cores that take scales, in the emulation alone: no card of sm_120a has run it.

The emulator holds what the instruction does: which lane's byte scales which row and column (csrc/common/ptx.cuh).
"""

from __future__ import annotations

import pytest
import torch

from engine.cuda.grouped_gemm import mx_gemm, mx_quantise
from engine.quant.formats import MX_32, PER_ROW, LayoutError, quantise
from tests.unit.csrc.emulated import EmulatedKernels
from tests.unit.csrc.test_csrc_grouped_gemm import PLACES, ROWS, assert_product, poisoned, single_product, spread


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


@pytest.mark.parametrize("rows", [1, 5, 33])
def test_activations_are_quantised_to_the_formats_very_numbers(kernels: EmulatedKernels, rows: int) -> None:
    x = spread(2, rows, 320).bfloat16()
    x[0, :32] = 0
    x[-1, :96] = torch.tensor([448.0, 450.0, 224.0]).repeat_interleave(32)  # on both sides of a step
    x[0, 32:64] = 2.0**-130
    x[0, 64:96] = torch.tensor([3.3e38, -3.3e38] * 16)
    expected, made = quantise(x, MX_32), quantise(torch.ones(rows, 320), MX_32)
    mx_quantise(kernels, x, made)
    assert torch.equal(made.scale.view(torch.uint8), expected.scale.view(torch.uint8))
    assert torch.equal(made.values.view(torch.uint8), expected.values.view(torch.uint8))


@pytest.mark.parametrize("rows", ROWS)
def test_both_sides_scales_meet_their_own_groups(kernels: EmulatedKernels, rows: int) -> None:
    x, weight = quantise(spread(3, rows, 416), MX_32), quantise(spread(4, 48, 416), MX_32)
    out = poisoned(rows, 48)
    mx_gemm(kernels, x, weight, out)
    assert_product(out, x.dequantised(), weight.dequantised())


def test_one_weight_and_one_activation_meet_wherever_they_stand(kernels: EmulatedKernels) -> None:
    for k, row, token in PLACES:
        out = poisoned(8, 16)
        x, weight, expected = single_product(k, row, token)
        mx_gemm(kernels, quantise(x, MX_32), quantise(weight, MX_32), out)
        assert torch.equal(out.float(), expected)


def test_other_groupings_are_refused(kernels: EmulatedKernels) -> None:
    x = torch.zeros(2, 64, dtype=torch.bfloat16)
    with pytest.raises(LayoutError, match="do not multiply"):
        mx_gemm(kernels, quantise(x, MX_32), quantise(torch.zeros(16, 64), PER_ROW), poisoned(2, 16))
    with pytest.raises(LayoutError, match="do not multiply"):
        mx_gemm(kernels, quantise(x, MX_32), quantise(torch.zeros(16, 96), MX_32), poisoned(2, 16))
    with pytest.raises(LayoutError, match="1 x 32"):
        mx_quantise(kernels, x, quantise(x, PER_ROW))
