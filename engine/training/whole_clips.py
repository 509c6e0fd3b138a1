"""The engine's codec modules over whole clips, for training: the same layers, from zeros, remembering nothing.

The convolutions run as matrix products (`run_as_products`), whose weights are those of the engine's modules.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.codec import CodecModel
from engine.codec.layers import CausalConv, CausalConvTranspose, ResidualUnit, Snake, StateShapes, name_layers
from engine.codec.quantizer import Quantizer
from engine.codec.streaming import Context
from engine.training.taps import Taps, product, snake_rows

__all__ = ["Quantized", "WholeClips", "quantize", "run_as_products"]


class WholeClips(Context):
    """A context of fresh rows: zeros in front of every layer's input."""

    def __init__(self, shapes: StateShapes) -> None:
        super().__init__({})
        self._shapes = shapes

    @classmethod
    def of(cls, model: CodecModel) -> WholeClips:
        return cls(name_layers(model))

    def extend(self, name: str, x: Tensor) -> Tensor:
        return F.pad(x.transpose(1, 2), (0, 0, self._shapes[name][1], 0)).transpose(1, 2)

    def extend_time_major(self, name: str, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 0, 0, self._shapes[name][0], 0))

    def advance(self, name: str, frames: int) -> Tensor:
        return self._zero

    def begin(self, rows: int, device: torch.device) -> WholeClips:
        """For a batch of this many rows."""
        self._zero = torch.zeros(rows, dtype=torch.int64, device=device)
        return self


class Quantized:
    """What training needs of the bottleneck."""

    def __init__(self, z: Tensor, codes: Tensor, first: Tensor, commitment: Tensor, latents: list[Tensor]) -> None:
        self.z, self.codes, self.first = z, codes, first
        """Latents [B, C, T] with straight-through gradients; codes [B, K, T]; the semantic stage's output [B, C, T]"""
        self.commitment = commitment
        self.latents = latents
        """Of each stage: what was looked up, [B * T, dim], for reviving entries that nothing uses."""


def quantize(quantizer: Quantizer, z: Tensor, context: Context) -> Quantized:
    """`Quantizer.encode` and the sum of lookups; gradients go straight through (VQ-VAE; factorised codes as in DAC)."""
    for downsample, block in quantizer.downsample:
        z = block(downsample(z, context), context)
    z = quantizer.pre_module(z, context).float()
    total, first = torch.zeros_like(z), None
    losses, codes, latents = [], [], []
    for stage in (*quantizer.semantic_quantizer.quantizers, *quantizer.quantizer.quantizers):
        latent = stage.in_proj(z - total.detach() if first is not None else z).float()
        with torch.no_grad():
            direction = F.normalize(latent, dim=1).transpose(1, 2)
            found = (direction @ F.normalize(stage.codebook.weight, dim=1).T).argmax(dim=-1)
        entry = stage.codebook(found).transpose(1, 2)
        losses.append(0.25 * F.mse_loss(latent, entry.detach()) + F.mse_loss(entry, latent.detach()))
        passed = latent + (entry - latent).detach()
        part = stage.out_proj(passed).float()
        total = total + part
        first = part if first is None else first
        codes.append(found)
        latents.append(latent.detach().transpose(1, 2).flatten(0, 1))
    assert first is not None, "there is a semantic stage"
    return Quantized(total, torch.stack(codes, 1), first, torch.stack(losses).sum(), latents)


def run_as_products(model: nn.Module, by: Taps) -> None:
    """Have the model's convolutions and Snakes run as matrix products (see `taps`). For whole clips only."""
    for module in model.modules():
        if isinstance(module, ResidualUnit):
            module.forward = partial(_residual_unit, module, by)  # type: ignore[method-assign]
        elif isinstance(module, CausalConv):
            run = _conv if module.conv.groups == 1 else _depthwise
            module.forward = partial(run, module, by)  # type: ignore[method-assign]
        elif isinstance(module, CausalConvTranspose):
            module.forward = partial(_conv_transpose, module, by)  # type: ignore[method-assign]
        elif isinstance(module, Snake):
            module.forward = partial(_snake, module, by)  # type: ignore[method-assign]


def _time_major(x: Tensor) -> Tensor:
    """[B, C, T] → [B, T, C], in the precision that autocast asks for."""
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    return x.transpose(1, 2)


def _residual_unit(unit: ResidualUnit, by: Taps, x: Tensor, _: Context) -> Tensor:
    snake7, conv7, snake1, conv1 = unit.block
    at = _time_major(x)
    y = _convolved(at, conv7.conv, by, snake7.alpha)
    return (at + _convolved(y, conv1.conv, by, snake1.alpha)).transpose(1, 2)


def _convolved(x: Tensor, conv: nn.Conv1d, by: Taps, alpha: Tensor | None) -> Tensor:
    """[B, T, C] → [B, T, O]; a stride of s makes blocks of s steps one step."""
    if conv.out_channels == 1:
        return _to_wave(x, conv, by, alpha)
    (stride,), (kernel,), (dilation,) = conv.stride, conv.kernel_size, conv.dilation
    if stride > 1:  # the kernel is once or twice the stride
        x = x.reshape(len(x), -1, stride * x.shape[2])
    rows = snake_rows(x, None if alpha is None else alpha.flatten(), kernel // stride, dilation, by)
    weight = conv.weight.permute(2, 1, 0).flatten(0, 1)
    assert conv.bias is not None, "the codec's convolutions have biases"
    return product(rows, weight, conv.bias)


def _to_wave(x: Tensor, conv: nn.Conv1d, by: Taps, alpha: Tensor | None) -> Tensor:
    """[B, T, C] → [B, T, 1] in fp32: bf16 would put a hiss under the wave. Each step is multiplied by all taps, and the
    products move to their places: seven numbers a step, where rows would be seven times C."""
    assert conv.bias is not None, "the codec's convolutions have biases"
    assert conv.stride == (1,), "each step makes a sample"
    (taps,), (dilation,) = conv.kernel_size, conv.dilation
    at = snake_rows(x, None if alpha is None else alpha.flatten(), 1, 1, by)
    parts = product(at.float(), conv.weight[0], F.pad(conv.bias, (taps - 1, 0))).unbind(-1)
    laters = [(taps - 1 - k) * dilation for k in range(taps)]
    moved = [F.pad(part, (later, -later)) for part, later in zip(parts, laters, strict=True)]
    return torch.stack(moved).sum(0)[..., None]


def _conv(module: CausalConv, by: Taps, x: Tensor, _: Context) -> Tensor:
    return _convolved(_time_major(x), module.conv, by, None).transpose(1, 2)


def _depthwise(module: CausalConv, _: Taps, x: Tensor, __: Context) -> Tensor:
    """Seven multiply-adds at frame rate: few steps, nothing to gain."""
    return module.conv(F.pad(x, (module.past, 0)))


def _conv_transpose(module: CausalConvTranspose, by: Taps, x: Tensor, _: Context) -> Tensor:
    """Block t is made of step t and, where the kernel is twice the stride, of the step before: two taps."""
    conv, stride = module.conv, module.stride
    taps = module.past + 1
    at = _time_major(x)
    rows = snake_rows(at, None, taps, 1, by)
    weight = conv.weight.unflatten(2, (taps, stride)).flip(2).permute(2, 0, 3, 1).reshape(rows.shape[2], -1)
    assert conv.bias is not None, "the codec's convolutions have biases"
    return product(rows, weight, conv.bias.repeat(stride)).reshape(len(x), -1, conv.out_channels).transpose(1, 2)


def _snake(snake: Snake, by: Taps, x: Tensor) -> Tensor:
    return snake_rows(_time_major(x), snake.alpha.flatten(), 1, 1, by).transpose(1, 2)
