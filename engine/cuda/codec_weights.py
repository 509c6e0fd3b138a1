"""The codec's decoder as packed fp16 weights: time-major convolutions, projected codebook tables, interleaved gates.

From the fused checkpoint names (`engine.codec`); only what decoding needs goes to the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.codec.config import CodecConfig
from engine.cuda.conv import ConvWeight

__all__ = ["BlockWeights", "CodecWeights", "ConvNeXtWeights", "UnitWeights", "WindowLayerWeights"]

DILATIONS = (1, 3, 9)
KERNEL = 7


@dataclass(frozen=True, slots=True)
class WindowLayerWeights:
    attention_norm: Tensor
    wqkv: ConvWeight
    wo: ConvWeight
    attention_scale: Tensor
    ffn_norm: Tensor
    gate_up: ConvWeight
    down: ConvWeight
    ffn_scale: Tensor


@dataclass(frozen=True, slots=True)
class ConvNeXtWeights:
    upsample: ConvWeight
    factor: int
    depthwise: Tensor
    """fp32 [7, C]."""
    depthwise_bias: Tensor
    norm: Tensor
    norm_bias: Tensor
    expand: ConvWeight
    reduce: ConvWeight
    gamma: Tensor


@dataclass(frozen=True, slots=True)
class UnitWeights:
    """A residual unit: its first Snake belongs to whoever writes its input."""

    alpha_in: Tensor
    conv7: ConvWeight
    alpha_mid: Tensor
    conv1: ConvWeight


@dataclass(frozen=True, slots=True)
class BlockWeights:
    alpha_in: Tensor
    """Snake before the transposed convolution, [input channels]."""
    upsample: ConvWeight
    stride: int
    units: tuple[UnitWeights, ...]


@dataclass(frozen=True, slots=True)
class CodecWeights:
    config: CodecConfig
    tables: Tensor
    """fp16 [sum of codebook sizes, latent]: entries projected up, bias included."""
    layers: tuple[WindowLayerWeights, ...]
    norm: Tensor
    inverse: Tensor
    """fp32 [D/2]: radians per frame of each rotary pair."""
    upsamples: tuple[ConvNeXtWeights, ...]
    first: ConvWeight
    blocks: tuple[BlockWeights, ...]
    alpha_out: Tensor
    last: Tensor
    """fp32 [7, C]."""
    last_bias: float

    @classmethod
    def build(cls, config: CodecConfig, tensors: Mapping[str, Tensor], device: torch.device) -> CodecWeights:
        state = _State(tensors, device)
        heads_dim = config.latent_dim // config.transformer_heads
        pairs = torch.arange(0, heads_dim, 2, dtype=torch.float32, device=device)
        post = "quantizer.post_module."
        count = len(config.decoder_rates)
        return cls(
            config=config,
            tables=_tables(state, config.n_codebooks),
            layers=tuple(_window_layer(state, f"{post}layers.{i}.") for i in range(config.transformer_layers)),
            norm=state.fp32(post + "norm.weight"),
            inverse=config.rope_base ** (-pairs / heads_dim),
            upsamples=tuple(
                _convnext(state, f"quantizer.upsample.{i}.", factor)
                for i, factor in enumerate(reversed(config.downsample_factor))
            ),
            first=_conv(state, "decoder.model.0.conv", 1),
            blocks=tuple(
                _block(state, f"decoder.model.{i + 1}.block.", stride) for i, stride in enumerate(config.decoder_rates)
            ),
            alpha_out=state.fp32(f"decoder.model.{count + 1}.alpha").flatten(),
            last=state.fp32(f"decoder.model.{count + 2}.conv.weight")[0].T.contiguous(),
            last_bias=float(state.fp32(f"decoder.model.{count + 2}.conv.bias")),
        )


@dataclass(frozen=True, slots=True)
class _State:
    tensors: Mapping[str, Tensor]
    device: torch.device

    def fp32(self, name: str) -> Tensor:
        return self.tensors[name].to(self.device, torch.float32).contiguous()


def _packed(weight: Tensor, bias: Tensor | None, taps: int, dilation: int = 1) -> ConvWeight:
    """weight [N, taps, C]."""
    flat = weight.reshape(weight.shape[0], -1)
    return ConvWeight(flat.to(torch.float16).contiguous(), bias, taps, dilation)


def _conv(state: _State, name: str, dilation: int) -> ConvWeight:
    weight = state.fp32(f"{name}.weight")
    return _packed(weight.transpose(1, 2), state.fp32(f"{name}.bias"), weight.shape[2], dilation)


def _conv_transpose(state: _State, name: str, stride: int) -> ConvWeight:
    """[in, out, k] with k = s or 2s -> taps old to new, s * out outputs per step: each step's s results in order."""
    weight, bias = state.fp32(f"{name}.weight"), state.fp32(f"{name}.bias")
    parts = [weight[:, :, first : first + stride] for first in range(0, weight.shape[2], stride)]
    taps = torch.stack(parts[::-1])  # [taps, in, out, s]
    packed = taps.permute(3, 2, 0, 1).reshape(stride * weight.shape[1], len(parts), weight.shape[0])
    return _packed(packed, bias.repeat(stride).contiguous(), len(parts))


def _project(state: _State, *names: str) -> ConvWeight:
    """A linear layer without bias; two of them are interleaved row by row (gates and ups)."""
    parts = [state.fp32(name) for name in names]
    weight = torch.stack(parts, dim=1).flatten(0, 1)
    return _packed(weight[:, None], None, 1)


def _tables(state: _State, codebooks: int) -> Tensor:
    names = ["quantizer.semantic_quantizer.quantizers.0."]
    names += [f"quantizer.quantizer.quantizers.{i}." for i in range(codebooks - 1)]
    tables = []
    for name in names:
        projection = state.fp32(name + "out_proj.weight")[..., 0]
        tables.append(state.fp32(name + "codebook.weight") @ projection.T + state.fp32(name + "out_proj.bias"))
    return torch.cat(tables).to(torch.float16).contiguous()


def _window_layer(state: _State, prefix: str) -> WindowLayerWeights:
    return WindowLayerWeights(
        attention_norm=state.fp32(prefix + "attention_norm.weight"),
        wqkv=_project(state, prefix + "attention.wqkv.weight"),
        wo=_project(state, prefix + "attention.wo.weight"),
        attention_scale=state.fp32(prefix + "attention_layer_scale.gamma"),
        ffn_norm=state.fp32(prefix + "ffn_norm.weight"),
        gate_up=_project(state, prefix + "feed_forward.w1.weight", prefix + "feed_forward.w3.weight"),
        down=_project(state, prefix + "feed_forward.w2.weight"),
        ffn_scale=state.fp32(prefix + "ffn_layer_scale.gamma"),
    )


def _convnext(state: _State, prefix: str, factor: int) -> ConvNeXtWeights:
    block = prefix + "1."

    def pointwise(name: str) -> ConvWeight:
        return _packed(state.fp32(f"{block}{name}.weight")[:, None], state.fp32(f"{block}{name}.bias"), 1)

    return ConvNeXtWeights(
        upsample=_conv_transpose(state, prefix + "0.conv", factor),
        factor=factor,
        depthwise=state.fp32(block + "dwconv.conv.weight")[:, 0].T.contiguous(),
        depthwise_bias=state.fp32(block + "dwconv.conv.bias"),
        norm=state.fp32(block + "norm.weight"),
        norm_bias=state.fp32(block + "norm.bias"),
        expand=pointwise("pwconv1"),
        reduce=pointwise("pwconv2"),
        gamma=state.fp32(block + "gamma"),
    )


def _block(state: _State, prefix: str, stride: int) -> BlockWeights:
    units = []
    for index, dilation in enumerate(DILATIONS):
        unit = f"{prefix}{index + 2}.block."
        units.append(
            UnitWeights(
                alpha_in=state.fp32(unit + "0.alpha").flatten(),
                conv7=_conv(state, unit + "1.conv", dilation),
                alpha_mid=state.fp32(unit + "2.alpha").flatten(),
                conv1=_conv(state, unit + "3.conv", 1),
            )
        )
    return BlockWeights(
        alpha_in=state.fp32(prefix + "0.alpha").flatten(),
        upsample=_conv_transpose(state, prefix + "1.conv", stride),
        stride=stride,
        units=tuple(units),
    )
