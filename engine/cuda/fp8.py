"""FP8 (E4M3) quantisers and their layouts. Scales are always "multiply the stored value by it".

* channels: one fp32 scale per output channel of a weight. What decode uses (loadtest/LOG.md has the comparison).
* blocks ("bsgemm", Hopper): weights in 128 x 128 blocks, activations in 1 x 128 groups, fp32 scales.
* mx ("mxfp8", Blackwell): groups of 32 along K with one power-of-two scale each, stored as its exponent (UE8M0).

Every scale tensor has the shape its bytes really have and is contiguous, so that `.contiguous()` and a safetensors
round trip cannot reorder it behind a kernel's back; operations check the layout and never guess.
A scale is amax / 448, the amax floored so that a group of zeros stays zero; values saturate at +-448.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "AMAX_FLOOR",
    "BLOCK",
    "E4M3_MAX",
    "MX_GROUP",
    "dequantize_blocks",
    "dequantize_groups",
    "dequantize_mx",
    "quantize_blocks",
    "quantize_channels",
    "quantize_groups",
    "quantize_mx",
]

E4M3_MAX = 448.0
AMAX_FLOOR = 1e-10
BLOCK = 128
MX_GROUP = 32
E8M0_BIAS = 127
E4M3_MAX_EXPONENT = 8
"""The largest E4M3 number, 448, lies in [2^8, 2^9)."""


def _to_e4m3(x: Tensor) -> Tensor:
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def _multiple(size: int, of: int, name: str) -> None:
    if size % of:
        raise ValueError(f"{name} is {size}, which is not a multiple of {of}")


def quantize_channels(weight: Tensor) -> tuple[Tensor, Tensor]:
    """[N, K] -> E4M3 [N, K], scale fp32 [N]."""
    wide = weight.float()
    scale = wide.abs().amax(dim=1).clamp(min=AMAX_FLOOR) / E4M3_MAX
    return _to_e4m3(wide / scale[:, None]), scale


def quantize_groups(x: Tensor) -> tuple[Tensor, Tensor]:
    """Activations [M, K], K % 128 = 0 -> E4M3 [M, K], scale fp32 [K/128, M] (group-major, as the GEMM reads it)."""
    _multiple(x.shape[1], BLOCK, "K")
    groups = x.float().unflatten(1, (-1, BLOCK))
    scale = groups.abs().amax(dim=2).clamp(min=AMAX_FLOOR) / E4M3_MAX
    return _to_e4m3(groups / scale[..., None]).flatten(1), scale.T.contiguous()


def dequantize_groups(values: Tensor, scale: Tensor) -> Tensor:
    """The fp32 [M, K] that `quantize_groups` stands for."""
    rows, width = values.shape
    _expect_scale(scale, (width // BLOCK, rows))
    return (values.float().unflatten(1, (-1, BLOCK)) * scale.T[..., None]).flatten(1)


def quantize_blocks(weight: Tensor) -> tuple[Tensor, Tensor]:
    """[N, K], both multiples of 128 -> E4M3 [N, K], scale fp32 [N/128, K/128]."""
    _multiple(weight.shape[0], BLOCK, "N")
    _multiple(weight.shape[1], BLOCK, "K")
    blocks = weight.float().unflatten(1, (-1, BLOCK)).unflatten(0, (-1, BLOCK))
    scale = blocks.abs().amax(dim=(1, 3)).clamp(min=AMAX_FLOOR) / E4M3_MAX
    return _to_e4m3(blocks / scale[:, None, :, None]).flatten(2).flatten(0, 1), scale.contiguous()


def dequantize_blocks(values: Tensor, scale: Tensor) -> Tensor:
    """The fp32 [N, K] that `quantize_blocks` stands for."""
    rows, width = values.shape
    _expect_scale(scale, (rows // BLOCK, width // BLOCK))
    return values.float() * scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)


def quantize_mx(x: Tensor) -> tuple[Tensor, Tensor]:
    """[M, K], K % 32 = 0 -> E4M3 [M, K], exponents uint8 [M, K/32]: the scale is 2^(e - 127).

    The exponent is floor(log2(amax)) - 8 as in the OCP microscaling format, clamped to what UE8M0 holds (e <= 254).
    """
    _multiple(x.shape[1], MX_GROUP, "K")
    groups = x.float().unflatten(1, (-1, MX_GROUP))
    amax = groups.abs().amax(dim=2).clamp(min=2.0**-126)
    exponent = (amax.frexp().exponent - 1 - E4M3_MAX_EXPONENT).clamp(-E8M0_BIAS, E8M0_BIAS)
    scaled = torch.ldexp(groups, -exponent[..., None])
    return _to_e4m3(scaled).flatten(1), (exponent + E8M0_BIAS).to(torch.uint8)


def dequantize_mx(values: Tensor, exponents: Tensor) -> Tensor:
    """The fp32 [M, K] that `quantize_mx` stands for."""
    rows, width = values.shape
    if tuple(exponents.shape) != (rows, width // MX_GROUP) or exponents.dtype != torch.uint8:
        raise ValueError(f"exponents must be uint8 {[rows, width // MX_GROUP]}, not {exponents.dtype}")
    groups = values.float().unflatten(1, (-1, MX_GROUP))
    return torch.ldexp(groups, exponents.int()[..., None] - E8M0_BIAS).flatten(1)


def _expect_scale(scale: Tensor, shape: tuple[int, int]) -> None:
    if tuple(scale.shape) != shape or scale.dtype != torch.float32 or not scale.is_contiguous():
        raise ValueError(
            f"the scale must be contiguous fp32 {list(shape)}, "
            f"not {scale.dtype} {list(scale.shape)} with strides {list(scale.stride())}"
        )
