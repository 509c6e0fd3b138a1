"""Matrix products of the decode step, in bf16 or in FP8.

FP8 here is weights with one scale per output channel, and activations in two terms with one scale per row: twice the
rows, which cost little where reading weights is what takes the time, for inputs as exact as in bf16 (one term costs a
trained model as much as FP8 weights do: loadtest/LOG.md). The product itself runs without scales through cuBLASLt's
fastest path; the raw sums (at most 448 * 448 * K, far inside bf16's range) are joined and rescaled by the kernel that
consumes them, which reads them anyway. So neither terms nor row-wise scales cost an extra launch. Weights whose scales
change along K (bsgemm, mxfp8) go through our own kernels, which apply them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cuda.grouped_gemm import grouped_gemm, mx_gemm, mx_quantise
from engine.cuda.kernels import Kernels
from engine.cuda.ops import Activation, Product, expect
from engine.quant.formats import MX_32, PER_ROW, Quantised

__all__ = ["Bf16Linear", "Fp8Linear", "GroupedLinear", "Linear", "linear"]


@dataclass(frozen=True, slots=True)
class Bf16Linear:
    """y = x W^T; weight bf16 [N, K]."""

    weight: Tensor

    def __call__(self, kernels: Kernels, x: Activation, out: Tensor) -> Product:
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

    def __call__(self, kernels: Kernels, x: Activation, out: Tensor) -> Product:
        """x E4M3 [B, 2, K] with row scales -> out bf16 [B, 2, N], unscaled; the scales go with it."""
        rows = out.shape[0]
        assert x.scale is not None, "an FP8 product needs an FP8 activation"
        expect(x.values, "x", (rows, 2, self.weight.shape[1]), torch.float8_e4m3fn)
        expect(x.scale, "x scale", (rows,), torch.float32)
        torch._scaled_mm(
            x.values.flatten(0, 1),
            self.weight.T,
            scale_a=self.unit,
            scale_b=self.unit,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
            out=out.flatten(0, 1),
        )
        return Product(out, x.scale, self.scale)


@dataclass(frozen=True, slots=True)
class GroupedLinear:
    """weight [N, K] in groups along K; activations stay bf16, but for mxfp8 on a card that multiplies it."""

    weight: Quantised

    def __call__(self, kernels: Kernels, x: Activation, out: Tensor) -> Product:
        """x bf16 [B, K] -> out bf16 [B, N]."""
        assert x.scale is None, "weights in groups take bf16 activations"
        if self.weight.grouping == MX_32 and kernels.has_block_scales:
            scaled = _empty_mx(x.values)
            mx_quantise(kernels, x.values, scaled)
            mx_gemm(kernels, scaled, self.weight, out)
        else:
            grouped_gemm(kernels, x.values, self.weight, out)
        return Product(out, None, None)


def _empty_mx(x: Tensor) -> Quantised:
    """Memory for x [B, K] in groups of 32. Where a graph is captured it comes from the graph's own pool."""
    values = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    return Quantised(values, torch.empty(MX_32.scale_shape(x.shape), dtype=MX_32.scale_dtype, device=x.device), MX_32)


Linear = Bf16Linear | Fp8Linear | GroupedLinear


def linear(parts: Sequence[Tensor | Quantised]) -> Linear:
    """From weights [N, K] whose rows follow one another: plain ones of any float dtype, or quantised ones of one
    grouping. Raises LayoutError."""
    plain = [part for part in parts if isinstance(part, Tensor)]
    if plain:
        assert len(plain) == len(parts), "a product is quantised whole or not at all"
        return Bf16Linear(torch.cat(plain).to(torch.bfloat16).contiguous())
    weight = Quantised.joined([part for part in parts if isinstance(part, Quantised)])
    if weight.grouping != PER_ROW:
        return GroupedLinear(weight)
    return Fp8Linear(weight.values, weight.scale.flatten(), torch.ones((), device=weight.values.device))
