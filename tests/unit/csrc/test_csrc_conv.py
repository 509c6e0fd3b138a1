"""csrc/conv.cu against torch's convolutions, on the CPU emulation, and the choice of its tile."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.cuda.conv import (
    HOPPER_96,
    HOPPER_128,
    MAX_SPLIT_TILES,
    NARROW,
    SQUARE,
    WIDE,
    WIDE_96,
    ConvActivation,
    ConvWeight,
    Grid,
    Rows,
    Tile,
    Workspace,
    choose_grid,
    conv,
)
from tests.unit.csrc.emulated import EmulatedKernels, drawn

FP16_TOLERANCE = 2e-3
"""fp16 output: half an ulp is 2^-12 relative; sums of a few hundred fp16 products add their own rounding."""


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


def grid_for(tile: Tile, m: int, n: int, splits: int) -> Grid:
    return Grid(tile, -(-n // tile.n), -(-m // tile.m), splits)


def seeded(*shape: int, seed: int) -> Tensor:
    return drawn(torch.Generator().manual_seed(seed), *shape)


def poisoned(rows: int, length: int, channels: int, past: int) -> Rows:
    return Rows(torch.full((rows, length, channels), float("nan"), dtype=torch.float16), past)


def new_steps(rows: Rows) -> Tensor:
    return rows.values[:, rows.past :].float()


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("tile", [NARROW, SQUARE, WIDE, WIDE_96, HOPPER_128, HOPPER_96], ids=str)
@pytest.mark.parametrize(
    ("rows", "steps", "channels", "outputs", "taps", "dilation"),
    [(1, 1, 64, 24, 7, 1), (3, 5, 24, 104, 7, 3), (2, 40, 96, 96, 1, 1), (1, 150, 8, 136, 2, 9)],
)
def test_conv_equals_torch(
    kernels: EmulatedKernels,
    rows: int,
    steps: int,
    channels: int,
    outputs: int,
    taps: int,
    dilation: int,
    tile: Tile,
    splits: int,
) -> None:
    past = (taps - 1) * dilation
    x = seeded(rows, past + steps, channels, seed=1).half()
    w = (seeded(outputs, channels, taps, seed=2) / (channels * taps) ** 0.5).half()
    bias = seeded(outputs, seed=3)
    out, snaked = poisoned(rows, steps + 2, outputs, 2), poisoned(rows, steps + 4, outputs, 4)
    residual = Rows(seeded(rows, steps, outputs, seed=4).half(), 0)
    alpha, scale = seeded(outputs, seed=5).abs() * 3 + 0.1, seeded(outputs, seed=6)
    weight = ConvWeight(w.transpose(1, 2).reshape(outputs, -1).contiguous(), bias, taps, dilation)
    workspace = Workspace.empty(splits * rows * steps * outputs, torch.get_default_device())
    workspace.parts.fill_(float("nan"))
    conv(
        kernels,
        Rows(x, past),
        weight,
        workspace,
        out=out,
        snake=(snaked, alpha),
        residual=residual,
        residual_scale=scale,
        grid=grid_for(tile, rows * steps, outputs, splits),
    )
    exact = F.conv1d(x.double().transpose(1, 2), w.double(), bias.double(), dilation=dilation).transpose(1, 2)
    exact = residual.values.double() + scale.double() * exact
    torch.testing.assert_close(new_steps(out).double(), exact, rtol=FP16_TOLERANCE, atol=FP16_TOLERANCE)
    snake = exact + (alpha * exact).sin().square() / (alpha + 1e-9)
    torch.testing.assert_close(new_steps(snaked).double(), snake, rtol=FP16_TOLERANCE, atol=FP16_TOLERANCE)
    assert out.values[:, :2].isnan().all(), "the past of the next layer was overwritten"
    assert snaked.values[:, :4].isnan().all()
    assert not workspace.arrivals.any(), "the arrival counters must be zero again"


def test_a_transposed_convolution_is_two_taps_and_wide_outputs(kernels: EmulatedKernels) -> None:
    rows, steps, inputs, outputs, stride = 2, 3, 16, 8, 5
    x = seeded(rows, 1 + steps, inputs, seed=1).half()
    w = (seeded(inputs, outputs, 2 * stride, seed=2) / inputs**0.5).half()
    bias = seeded(outputs, seed=3)
    old, new = w[:, :, stride:], w[:, :, :stride]  # what the step before and the step itself contribute
    packed = torch.stack([old, new]).permute(3, 2, 0, 1).reshape(stride * outputs, 2 * inputs).contiguous()
    out = poisoned(rows, steps * stride, outputs, 0)
    weight = ConvWeight(packed, bias.repeat(stride), 2)
    conv(kernels, Rows(x, 1), weight, Workspace.empty(10**5, torch.get_default_device()), out=out)
    full = F.conv_transpose1d(x.double().transpose(1, 2), w.double(), bias.double(), stride=stride)
    exact = full[..., stride : stride * (1 + steps)].transpose(1, 2)
    torch.testing.assert_close(out.values.double(), exact, rtol=FP16_TOLERANCE, atol=FP16_TOLERANCE)


@pytest.mark.parametrize("activation", [ConvActivation.GELU, ConvActivation.SWIGLU])
def test_activations(kernels: EmulatedKernels, activation: ConvActivation) -> None:
    x = seeded(1, 20, 32, seed=1).half()
    w = (seeded(48, 32, seed=2) / 4).half()
    exact = x[0].double() @ w.double().T
    exact = F.silu(exact[:, ::2]) * exact[:, 1::2] if activation is ConvActivation.SWIGLU else F.gelu(exact)
    out = poisoned(1, 20, exact.shape[1], 0)
    workspace = Workspace.empty(10**5, torch.get_default_device())
    conv(kernels, Rows(x, 0), ConvWeight(w, None, 1), workspace, out=out, activation=activation)
    torch.testing.assert_close(out.values[0].double(), exact, rtol=FP16_TOLERANCE, atol=FP16_TOLERANCE)


def test_large_values_saturate_and_stay_finite(kernels: EmulatedKernels) -> None:
    x = torch.full((1, 1, 64), 6e4, dtype=torch.float16)
    weight = ConvWeight(torch.ones(8, 64, dtype=torch.float16), None, 1)
    out = poisoned(1, 1, 8, 0)
    conv(kernels, Rows(x, 0), weight, Workspace.empty(1024, torch.get_default_device()), out=out)
    assert bool((out.values == 65504).all())


@pytest.mark.parametrize("warpgroups", [False, True])
def test_every_shape_of_the_full_codec_gets_a_grid_that_covers_it(warpgroups: bool) -> None:
    shapes = [(1024, 3072, 1), (1024, 6144, 1), (3072, 1024, 1), (1024, 1536, 7), (1536, 6144, 2)]
    shapes += [(768, 768, 7), (384, 384, 7), (192, 192, 7), (96, 96, 7), (384, 768, 2), (96, 96, 1)]
    for m in (1, 2, 16, 17, 64, 128, 1000, 4096, 262144):
        for channels, outputs, taps in shapes:
            grid = choose_grid(m, outputs, channels * taps, warpgroups=warpgroups)
            assert grid.tiles_m * grid.tile.m >= m
            assert grid.tiles_n * grid.tile.n >= outputs
            assert 1 <= grid.splits <= -(-channels * taps // grid.tile.k)
            if grid.splits > 1:
                assert grid.tiles_m * grid.tiles_n <= MAX_SPLIT_TILES
            assert grid.tile.shared_bytes <= 227 * 1024
