"""Matrix products of the decode step, in bf16 or in FP8, with the scales left for the kernel that reads the result.

FP8 here is E4M3 with one scale per output channel of a weight and one per row of an activation. The product itself
runs without scales through cuBLASLt's fastest path; the raw sums (at most 448 * 448 * K, far inside bf16's range) are
rescaled by the kernel that consumes them, which reads them anyway. So row-wise accuracy costs no extra launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cuda.ops import Activation, Product, expect
from engine.quant.formats import PER_ROW, quantise

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


def linear(weight: Tensor, *, fp8: bool) -> Linear:
    """From a weight [N, K] of any float dtype."""
    if not fp8:
        return Bf16Linear(weight.to(torch.bfloat16).contiguous())
    quantised = quantise(weight, PER_ROW)
    return Fp8Linear(quantised.values, quantised.scale.flatten(), torch.ones((), device=weight.device))
