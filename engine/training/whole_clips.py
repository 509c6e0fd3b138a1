"""The engine's codec modules over whole clips, for training: the same layers, from zeros, remembering nothing.

On a GPU the convolutions run channels-last as two-dimensional ones: with 16 to 48 channels cuDNN's plain 1-D kernels
leave most of the card idle.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.codec import CodecModel
from engine.codec.layers import Snake, StateShapes, name_layers
from engine.codec.quantizer import Quantizer
from engine.codec.streaming import Context

__all__ = ["Quantized", "WholeClips", "quantize", "run_channels_last"]


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


def run_channels_last(model: nn.Module) -> None:
    """Have every convolution and Snake of the model work on channels-last tensors."""
    for module in model.modules():
        if isinstance(module, nn.Conv1d):
            module.forward = partial(_conv, module)  # type: ignore[method-assign]
        elif isinstance(module, nn.ConvTranspose1d):
            module.forward = partial(_conv_transpose, module)  # type: ignore[method-assign]
        elif isinstance(module, Snake):
            module.forward = partial(_run_snake, module.alpha)  # type: ignore[method-assign]


def _conv(conv: nn.Conv1d, x: Tensor) -> Tensor:
    y = F.conv2d(
        x[:, :, None].contiguous(memory_format=torch.channels_last),
        conv.weight[:, :, None],
        conv.bias,
        stride=(1, conv.stride[0]),
        dilation=(1, conv.dilation[0]),
        groups=conv.groups,
    )
    return y[:, :, 0]


def _conv_transpose(conv: nn.ConvTranspose1d, x: Tensor) -> Tensor:
    y = F.conv_transpose2d(
        x[:, :, None].contiguous(memory_format=torch.channels_last),
        conv.weight[:, :, None],
        conv.bias,
        stride=(1, conv.stride[0]),
    )
    return y[:, :, 0]


def _snake(a: Tensor, x: Tensor) -> Tensor:
    """As engine.codec.layers.Snake, on [B, T, C] underneath. `a` [1, 1, C]."""
    t = x.transpose(1, 2)
    return (t + (a * t).sin().square() / (a + 1e-9)).to(x.dtype).transpose(1, 2)


@cache
def _fast_snake() -> Any:
    """Compiled when a GPU first asks for it: importing the compiler takes seconds."""
    return torch.compile(_snake, dynamic=True)


def _run_snake(alpha: Tensor, x: Tensor) -> Tensor:
    """A view of the parameter: the compiler takes the shape of a parameter itself for fixed, and would compile anew for
    each number of channels until it gives up."""
    a = alpha.view(1, 1, -1)
    return _fast_snake()(a, x) if x.is_cuda else _snake(a, x)
