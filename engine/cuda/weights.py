"""The model's weights as the decode step wants them: fused, sliced, quantised, on the device.

From a mapping of raw tensor names (`engine.weights`), which may live anywhere and make its tensors when asked: a big
model never exists in bf16 as a whole. Products that come quantised are run in FP8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import ConfigError, ModelConfig, StackConfig
from engine.cuda.linear import Bf16Linear, Fp8Linear, Linear, linear
from engine.model.layers import rope_table
from engine.quant.formats import Quantised

__all__ = ["HEAD_ALIGNMENT", "LayerWeights", "ModelWeights", "StackWeights"]

HEAD_ALIGNMENT = 16
"""Rows of the sliced head are padded to it: cuBLAS is slow on odd widths. The sampler ignores the padding."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    attention_norm: Tensor
    wqkv: Linear
    qk_norms: tuple[Tensor, Tensor] | None
    wo: Linear
    ffn_norm: Tensor
    gate_up: Linear
    """w1 rows, then w3 rows: [2F, C]."""
    down: Linear


@dataclass(frozen=True, slots=True)
class StackWeights:
    config: StackConfig
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Bf16Linear
    """Only the rows that may be drawn, zero-padded: slow [codes…, end], fast [residual codes]."""
    rope: Tensor
    """fp32 [positions, D/2, 2], bf16-rounded."""


@dataclass(frozen=True, slots=True)
class ModelWeights:
    config: ModelConfig
    semantic_begin: int
    slow: StackWeights
    fast: StackWeights
    embeddings: Tensor
    codebook_embeddings: Tensor
    fast_embeddings: Tensor
    project_in: Bf16Linear | None
    project_bias: Tensor | None
    spoken_scale: float

    @property
    def has_fp8_activations(self) -> bool:
        """Whether the layers' products take E4M3 inputs with a scale per row."""
        return isinstance(self.slow.layers[0].wo, Fp8Linear)

    @classmethod
    def build(
        cls,
        config: ModelConfig,
        tensors: Mapping[str, Tensor | Quantised],
        *,
        semantic_begin: int,
        im_end: int,
        context_tokens: int,
        device: torch.device,
    ) -> ModelWeights:
        """Heads, embeddings and norms are bf16 in any case. Raises ConfigError."""

        def take(name: str) -> Tensor | Quantised:
            return tensors[name].to(device)

        def bf16(name: str) -> Tensor:
            return _bf16(take(name))

        embeddings = bf16("embeddings.weight")
        output = embeddings if config.tie_word_embeddings else bf16("output.weight")
        allowed = torch.cat([output[semantic_begin : semantic_begin + config.codebook_size], output[im_end, None]])
        residuals = bf16("fast_output.weight")[: config.residual_codebook_size]
        slow = StackWeights(
            config.slow,
            tuple(_layer(config.slow, f"layers.{i}.", take) for i in range(config.slow.layers)),
            bf16("norm.weight"),
            _head(allowed),
            _rope(config.slow, context_tokens, config.rope_table_bf16, device),
        )
        fast = StackWeights(
            config.fast,
            tuple(_layer(config.fast, f"fast_layers.{i}.", take) for i in range(config.fast.layers)),
            bf16("fast_norm.weight"),
            _head(residuals),
            _rope(config.fast, config.num_codebooks, config.rope_table_bf16, device),
        )
        projected = config.has_project_in
        return cls(
            config,
            semantic_begin,
            slow,
            fast,
            embeddings,
            bf16("codebook_embeddings.weight"),
            bf16("fast_embeddings.weight"),
            Bf16Linear(bf16("fast_project_in.weight")) if projected else None,
            bf16("fast_project_in.bias") if projected else None,
            1 / math.sqrt(config.num_codebooks + 1) if config.scale_codebook_embeddings else 1.0,
        )


def _bf16(tensor: Tensor | Quantised) -> Tensor:
    assert isinstance(tensor, Tensor), "only products are quantised"
    return tensor.to(torch.bfloat16).contiguous()


def _layer(stack: StackConfig, prefix: str, take: Callable[[str], Tensor | Quantised]) -> LayerWeights:
    if stack.qkv_bias or stack.o_bias:
        raise ConfigError("the CUDA backend has no attention biases; the family's models have none")

    def bf16(name: str) -> Tensor:
        return _bf16(take(prefix + name))

    def product(*names: str) -> Linear:
        return linear([take(prefix + name) for name in names])

    norms = (bf16("attention.q_norm.weight"), bf16("attention.k_norm.weight")) if stack.qk_norm else None
    return LayerWeights(
        bf16("attention_norm.weight"),
        product("attention.wqkv.weight"),
        norms,
        product("attention.wo.weight"),
        bf16("ffn_norm.weight"),
        product("feed_forward.w1.weight", "feed_forward.w3.weight"),
        product("feed_forward.w2.weight"),
    )


def _head(rows: Tensor) -> Bf16Linear:
    padded = torch.zeros(
        -(-rows.shape[0] // HEAD_ALIGNMENT) * HEAD_ALIGNMENT, rows.shape[1], dtype=torch.bfloat16, device=rows.device
    )
    padded[: rows.shape[0]] = rows
    return Bf16Linear(padded)


def _rope(stack: StackConfig, positions: int, bf16: bool, device: torch.device) -> Tensor:
    return rope_table(stack.head_dim, stack.rope_base, positions, bf16=bf16).to(device).contiguous()
