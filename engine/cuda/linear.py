"""Matrix products of the decode step, in bf16 or in FP8, with the scales left for the kernel that reads the result.

FP8 here is E4M3 with one scale per output channel of a weight and one per row of an activation. The product itself
runs without scales through cuBLASLt's fastest path; the raw sums (at most 448 * 448 * K, far inside bf16's range) are
rescaled by the kernel that consumes them, which reads them anyway. So row-wise accuracy costs no extra launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import ConfigError
from engine.cuda.ops import Activation, Product, expect
from engine.quant.formats import PER_ROW, Quantised

__all__ = ["Bf16Linear", "Fp8Linear", "Linear", "linear"]


@dataclass(frozen=True, slots=True)
class Bf16Linear:
    """y = x W^T; weight bf16 [N, K]."""

    weight: Tensor

    def __call__(self, x: Activation, out: Tensor) -> Product:
        """x bf16 [B, K] -> out bf16 [B, N]."""
        expect(x.values, "x", (out.shape[0], self.weight.shape[1]), torch.bfloat16)
        torch.mm(x.values, self.weight.T, out=out)
        return Product(out, None, None)


@dataclass(frozen=True, slots=True)
class Fp8Linear:
    """weight E4M3 [N, K], scale fp32 [N]; unit fp32 [] is the scale cuBLASLt is told."""

    weight: Tensor
    scale: Tensor
    unit: Tensor

    def __call__(self, x: Activation, out: Tensor) -> Product:
        """x E4M3 [B, K] with row scales -> out bf16 [B, N], unscaled; the scales go with it."""
        rows = out.shape[0]
        assert x.scale is not None, "an FP8 product needs an FP8 activation"
        expect(x.values, "x", (rows, self.weight.shape[1]), torch.float8_e4m3fn)
        expect(x.scale, "x scale", (rows,), torch.float32)
        torch._scaled_mm(
            x.values,
            self.weight.T,
            scale_a=self.unit,
            scale_b=self.unit,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
            out=out,
        )
        return Product(out, x.scale, self.scale)


Linear = Bf16Linear | Fp8Linear


def linear(parts: Sequence[Tensor | Quantised]) -> Linear:
    """From weights [N, K] whose rows follow one another: plain ones of any float dtype, or E4M3 with a scale per row.
    Raises ConfigError for another grouping."""
    plain = [part for part in parts if isinstance(part, Tensor)]
    if plain:
        assert len(plain) == len(parts), "a product is quantised whole or not at all"
        return Bf16Linear(torch.cat(plain).to(torch.bfloat16).contiguous())
    weight = Quantised.joined([part for part in parts if isinstance(part, Quantised)])
    if weight.grouping != PER_ROW:
        raise ConfigError(f"the CUDA backend multiplies by weights with one scale per row, not by {weight.grouping}")
    return Fp8Linear(weight.values, weight.scale.flatten(), torch.ones((), device=weight.values.device))
