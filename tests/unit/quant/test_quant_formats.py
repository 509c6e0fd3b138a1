"""FP8 tensors: the rounding rules against the specification's arithmetic, and layouts that cannot be misread."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from engine.quant.formats import (
    GROUPS_128,
    MX_32,
    PER_ROW,
    PER_TENSOR,
    SQUARES_128,
    Grouping,
    LayoutError,
    Quantised,
    in_two_terms,
    quantise,
)

GROUPINGS = [PER_TENSOR, PER_ROW, SQUARES_128, GROUPS_128, MX_32]
ROWS, WIDTH = 256, 384


def values_of_e4m3() -> list[float]:
    """Every finite magnitude, from the format's definition."""
    subnormal = [m * 2.0**-9 for m in range(8)]
    normal = [(8 + m) * 2.0 ** (e - 10) for e in range(1, 16) for m in range(8)]
    return [*subnormal, *normal[:-1]]  # the last code is the NaN


def nearest(x: float) -> float:
    """E4M3 by search: the nearest magnitude, ties to the even code, saturating."""
    magnitudes = values_of_e4m3()
    size = min(abs(x), 448.0)
    code = min(range(len(magnitudes)), key=lambda c: (abs(magnitudes[c] - size), c % 2))
    return magnitudes[code] if x >= 0 else -magnitudes[code]


def drawn(seed: int, spread: float = 4.0) -> Tensor:
    """[ROWS, WIDTH] whose magnitudes span many powers of two."""
    random = torch.Generator().manual_seed(seed)
    sizes = torch.randn(ROWS, WIDTH, generator=random) * spread
    return torch.randn(ROWS, WIDTH, generator=random) * 2.0**sizes


def test_the_values_are_the_nearest_of_the_grid_and_ties_go_to_even() -> None:
    grid = values_of_e4m3()
    between = [(a + b) / 2 for a, b in itertools.pairwise(grid)]
    close = [t * (1 + s * 2.0**-20) for t in between for s in (-1, 1)]
    inputs = [*grid, *between, *close, 447.0]
    inputs += [-x for x in inputs]
    # 448 in every row makes the row's scale one.
    x = torch.tensor([[x, 448.0] for x in inputs])
    got = quantise(x, PER_ROW)
    assert torch.equal(got.scale, torch.ones(len(inputs), 1))
    assert got.values.float()[:, 0].tolist() == [nearest(x) for x in inputs]


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_group_has_its_own_scale(grouping: Grouping) -> None:
    x = drawn(1)
    made = quantise(x, grouping)
    for i, j in itertools.product(range(made.scale.shape[0]), range(made.scale.shape[1])):
        group = grouping.tiles(x)[i, :, j]
        expected = float(group.abs().max()) / 448
        if grouping.power_of_two:
            scale = float(made.scale[i, j].float())
            assert scale * 224 < float(group.abs().max()) <= scale * 448
        else:
            assert float(made.scale[i, j]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_what_comes_back_is_within_half_a_step_of_what_went_in(grouping: Grouping) -> None:
    """Normal numbers keep four significant bits, subnormal ones a step of 2^-9 scales."""
    x = drawn(2)
    made = quantise(x, grouping)
    scale = made.scale.float().repeat_interleave(ROWS // made.scale.shape[0], 0)
    scale = scale.repeat_interleave(WIDTH // made.scale.shape[1], 1)
    error = (made.dequantised() - x).abs()
    assert bool((error <= torch.maximum(2.0**-4 * x.abs(), 2.0**-10 * scale) * (1 + 1e-6)).all())


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_zeros_stay_zero_and_disturb_nobody(grouping: Grouping) -> None:
    x = drawn(3)
    x[:128, :128] = 0
    back = quantise(x, grouping).dequantised()
    assert not back[:128, :128].any()
    assert bool(back.isfinite().all())
    assert not quantise(torch.zeros(ROWS, WIDTH), grouping).dequantised().any()


@given(st.integers(-126, 127))
def test_a_power_of_two_is_256_times_its_scale(exponent: int) -> None:
    """There the specification's scale and ours are one; both stay in 2^-127 … 2^127."""
    x = torch.zeros(1, 32)
    x[0, 5] = -(2.0**exponent)
    made = quantise(x, MX_32)
    assert int(made.scale.view(torch.uint8)) == max(exponent - 8, -127) + 127
    assert torch.equal(made.dequantised(), x)


@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_the_scale_is_the_smallest_power_of_two_at_which_nothing_saturates(largest: float) -> None:
    made = quantise(torch.tensor([[largest, *[-largest / 3] * 31]]), MX_32)
    scale = float(made.scale.float())
    assert 224 < largest / scale <= 448
    assert float(made.values.float()[0, 0]) == nearest(largest / scale)


def test_at_448_the_scale_is_one_and_beyond_it_two() -> None:
    beyond = torch.nextafter(torch.tensor(448.0), torch.tensor(1e9))
    for largest, biased in ((448.0, 127), (float(beyond), 128), (224.0, 126)):
        assert int(quantise(torch.full((1, 32), largest), MX_32).scale.view(torch.uint8)) == biased


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_quantising_what_was_quantised_changes_no_number_of_mx_and_no_value_of_any(grouping: Grouping) -> None:
    once = quantise(drawn(4), grouping)
    again = quantise(once.dequantised(), grouping)
    if grouping.power_of_two:
        assert torch.equal(again.dequantised(), once.dequantised())
    else:
        # The scale is derived from a rounded product, so it may be off by its last bit; no value moves.
        assert torch.equal(again.values.float(), once.values.float())
        assert torch.allclose(again.scale, once.scale, rtol=2e-7, atol=0)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_scales_survive_contiguous_and_a_file(grouping: Grouping) -> None:
    """The known trap: a scale tensor with hidden strides keeps its values in a file and loses its byte order."""
    made = quantise(drawn(5), grouping)
    stored = made.scale.view(torch.uint8) if grouping.power_of_two else made.scale
    file = load(save({"values": made.values, "scale": stored}))
    for scale in (made.scale.contiguous(), made.scale.clone(), file["scale"].view(made.scale.dtype)):
        assert torch.equal(Quantised(file["values"], scale, grouping).dequantised(), made.dequantised())
        assert scale.stride() == made.scale.stride()


@pytest.mark.parametrize("grouping", [SQUARES_128, GROUPS_128, MX_32])
def test_a_scale_in_another_layout_is_refused(grouping: Grouping) -> None:
    made = quantise(drawn(6), grouping)
    transposed = made.scale.view(torch.uint8 if grouping.power_of_two else torch.float32)
    transposed = transposed.T.contiguous().T.view(made.scale.dtype)  # the same values, other strides
    for scale in (transposed, made.scale.T, made.scale[:-1], made.scale[:, :-1], made.scale.float().double()):
        with pytest.raises(LayoutError, match="scale must be contiguous"):
            Quantised(made.values, scale, grouping)
    with pytest.raises(LayoutError, match="values must be contiguous"):
        Quantised(made.values.view(torch.uint8).T.view(torch.float8_e4m3fn), made.scale, grouping)
    with pytest.raises(LayoutError, match=r"values must be contiguous torch\.float8_e4m3fn"):
        Quantised(made.values.float(), made.scale, grouping)


def test_tensors_that_groups_do_not_tile_are_refused() -> None:
    for shape in [(100, 128), (128, 100)]:
        with pytest.raises(LayoutError, match="does not divide"):
            quantise(torch.zeros(shape), SQUARES_128)
    with pytest.raises(LayoutError, match="two dimensions"):
        quantise(torch.zeros(128), PER_ROW)


@pytest.mark.parametrize("grouping", [PER_ROW, SQUARES_128, GROUPS_128, MX_32])
def test_joined_rows_are_the_rows_of_the_parts(grouping: Grouping) -> None:
    parts = [quantise(drawn(seed), grouping) for seed in (7, 8, 9)]
    joined = Quantised.joined(parts)
    assert torch.equal(joined.dequantised(), torch.cat([part.dequantised() for part in parts]))


def test_parts_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(LayoutError, match="different groupings"):
        Quantised.joined([quantise(drawn(1), PER_ROW), quantise(drawn(1), MX_32)])
    with pytest.raises(LayoutError, match="one scale each"):
        Quantised.joined([quantise(drawn(1), PER_TENSOR)] * 2)


def test_two_terms_have_eight_significant_bits_over_six_decades() -> None:
    random = torch.Generator().manual_seed(5)
    x = torch.randn(64, WIDTH, generator=random) * torch.logspace(0, -6, WIDTH)
    scale = x.abs().amax(1, keepdim=True) / 448
    error = (in_two_terms(x) - x).abs()
    assert bool((error <= 1.01 * (x.abs() * 2.0**-8 + scale * 2.0**-14)).all())
    assert float(error.square().mean()) < float((quantise(x, PER_ROW).dequantised() - x).square().mean()) / 200


def test_a_row_of_zeros_is_zero_in_two_terms() -> None:
    assert not in_two_terms(torch.zeros(2, WIDTH)).any()
