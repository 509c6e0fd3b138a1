"""FP8 tensors: E4M3 values and the scales that groups of them share, in plain torch, on any device.

One description serves weights [N, K] and activations [M, K]: a `Grouping` says which values share a scale, a
`Quantised` holds both tensors. A scale is always "multiply the stored value by it", and the scale tensor is always
two-dimensional, row-major and contiguous: entry [i, j] belongs to the group in block row i and block column j. There is
no padded, packed or transposed form at rest, so `.contiguous()` and a safetensors round trip change nothing; an
operation that wants another order makes it itself and says so in its shape.

Numbers. E4M3 is the OCP 8-bit floating point specification's: bias 7, largest 448, no infinities, subnormals down to
2^-9. Values are rounded to the nearest, ties to even, and saturate at +-448.

* fp32 scales are amax / 448. The amax is floored at 1e-10, so that a group of zeros stays zero.
* power-of-two scales are UE8M0 of the OCP microscaling specification (MX v1.0): one byte e for 2^(e - 127), e <= 254.
  Here it is the smallest power of two at which nothing saturates. The specification's own conversion (section 6.3)
  takes 2^(floor(log2 amax) - 8) and clamps what lands above 448; any scale makes a valid tensor, and this one loses
  less (loadtest/LOG.md has both). A group of zeros gets the smallest scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "AMAX_FLOOR",
    "E4M3_MAX",
    "GROUPS_128",
    "MX_32",
    "PER_ROW",
    "PER_TENSOR",
    "SQUARES_128",
    "Grouping",
    "LayoutError",
    "Quantised",
    "in_two_terms",
    "quantise",
]

E4M3_MAX = 448.0
AMAX_FLOOR = 1e-10
E4M3_MAX_MANTISSA, E4M3_MAX_EXPONENT = 0.875, 9
"""448 is 0.875 * 2^9."""
E8M0_BIAS = 127
TERM_STEP = 16.0
SMALLEST_NORMAL = 2.0**-126


class LayoutError(ValueError):
    """A quantised tensor whose parts do not fit each other; the message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """`rows` x `columns` values share one scale; None means all of them."""

    rows: int | None
    columns: int | None
    power_of_two: bool = False

    @property
    def scale_dtype(self) -> torch.dtype:
        return torch.float8_e8m0fnu if self.power_of_two else torch.float32

    def scale_shape(self, shape: Sequence[int]) -> tuple[int, int]:
        """Of the scales of values [rows, K]. Raises LayoutError where groups do not tile them."""
        rows, columns = self._sizes(shape)
        return shape[0] // rows, shape[1] // columns

    def tiles(self, x: Tensor) -> Tensor:
        """[rows, K] as a view [block rows, rows of a group, block columns, columns of a group]."""
        rows, columns = self._sizes(x.shape)
        return x.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))

    def _sizes(self, shape: Sequence[int]) -> tuple[int, int]:
        if len(shape) != 2:
            raise LayoutError(f"quantised tensors have two dimensions, not the shape {list(shape)}")
        rows, columns = self.rows or shape[0], self.columns or shape[1]
        if shape[0] % rows or shape[1] % columns:
            raise LayoutError(f"{list(shape)} does not divide into groups of {rows} x {columns}")
        return rows, columns


PER_TENSOR = Grouping(None, None)
PER_ROW = Grouping(1, None)
"""A weight's output channels, an activation's tokens."""
SQUARES_128 = Grouping(128, 128)
GROUPS_128 = Grouping(1, 128)
MX_32 = Grouping(1, 32, power_of_two=True)


@dataclass(frozen=True, slots=True)
class Quantised:
    """E4M3 `values` [rows, K] and their `scale`, [block rows, block columns] fp32 or UE8M0. Raises LayoutError."""

    values: Tensor
    scale: Tensor
    grouping: Grouping

    def __post_init__(self) -> None:
        _expect("values", self.values, tuple(self.values.shape), torch.float8_e4m3fn)
        _expect("scale", self.scale, self.grouping.scale_shape(self.values.shape), self.grouping.scale_dtype)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def dequantised(self) -> Tensor:
        """fp32 [rows, K], exact: an E4M3 number times a scale, rounded once where the scale is no power of two."""
        return (self.grouping.tiles(self.values.float()) * self.scale.float()[:, None, :, None]).reshape(self.shape)

    def to(self, device: torch.device) -> Quantised:
        return Quantised(self.values.to(device), self.scale.to(device), self.grouping)

    @classmethod
    def joined(cls, parts: Sequence[Quantised]) -> Quantised:
        """The rows of all parts, in order; groups never span parts. Raises LayoutError."""
        grouping = parts[0].grouping
        if any(part.grouping != grouping for part in parts):
            raise LayoutError("tensors of different groupings cannot be joined")
        if grouping.rows is None and len(parts) > 1:
            raise LayoutError("tensors with one scale each cannot be joined")
        return cls(_stacked([p.values for p in parts]), _stacked([p.scale for p in parts]), grouping)


def quantise(x: Tensor, grouping: Grouping) -> Quantised:
    """Values [rows, K] of any float dtype, computed in fp32. Raises LayoutError where groups do not tile them."""
    tiles = grouping.tiles(x.float())
    scale = _scale(tiles.abs().amax(dim=(1, 3)), grouping)
    scaled = tiles / scale.float()[:, None, :, None]
    values = scaled.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return Quantised(values.reshape(x.shape), scale, grouping)


def in_two_terms(x: Tensor) -> Tensor:
    """Values [rows, K] -> fp32 [rows, K] as the GPU's FP8 products are given them (csrc/common/numeric.cuh): a row of
    E4M3, and a second one 16 times finer for what rounding the first has left. Eight significant bits, as bf16 has."""
    first = quantise(x, PER_ROW)
    left = (x.float() / first.scale - first.values.float()) * TERM_STEP
    return (first.values.float() + left.to(torch.float8_e4m3fn).float() / TERM_STEP) * first.scale


def _scale(amax: Tensor, grouping: Grouping) -> Tensor:
    if not grouping.power_of_two:
        # By a tensor: CUDA divides by a number as a product with its reciprocal, an ulp off the CPU's quotient.
        return amax.clamp(min=AMAX_FLOOR) / torch.full_like(amax, E4M3_MAX)
    mantissa, exponent = amax.clamp(min=SMALLEST_NORMAL).frexp()
    exponent = exponent - E4M3_MAX_EXPONENT + (mantissa > E4M3_MAX_MANTISSA)
    biased = exponent.clamp(-E8M0_BIAS, E8M0_BIAS) + E8M0_BIAS
    return biased.to(torch.uint8).view(torch.float8_e8m0fnu)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Rows below each other. One-byte floats have no concatenation of their own, so their bytes are joined."""
    if parts[0].element_size() > 1:
        return torch.cat(list(parts))
    return torch.cat([part.view(torch.uint8) for part in parts]).view(parts[0].dtype)


def _expect(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or not tensor.is_contiguous():
        raise LayoutError(
            f"{name} must be contiguous {dtype} {list(shape)}, "
            f"not {tensor.dtype} {list(tensor.shape)} with strides {list(tensor.stride())}"
        )
