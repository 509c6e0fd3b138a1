"""`s2-pro-random`: the full-size model and codec with seeded random weights, made on the device tensor by tensor.

For speed and memory figures where the real checkpoint is not at hand. It speaks noise.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from engine.codec.codec import CodecModel
from engine.codec.config import CodecConfig
from engine.config import ModelConfig
from engine.weights import Shape, expected_shapes

__all__ = ["IM_END", "S2_PRO", "SEMANTIC_BEGIN", "RandomTensors", "random_codec", "random_model"]

SEMANTIC_BEGIN, IM_END = 151_678, 151_645

_STACK = {
    "dim": 2560,
    "n_head": 32,
    "n_local_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "rope_base": 1e6,
    "norm_eps": 1e-6,
}

S2_PRO = ModelConfig.parse(
    {
        "model_type": "fish_qwen3_omni",
        "residual_codebook_size": 1024,
        "text_config": {
            **_STACK,
            "vocab_size": 155_776,
            "n_layer": 36,
            "max_seq_len": 32_768,
            "attention_qk_norm": True,
        },
        "audio_decoder_config": {
            **_STACK,
            "vocab_size": 4096,
            "n_layer": 4,
            "num_codebooks": 10,
            "max_seq_len": 11,
            "text_dim": 2560,
        },
    }
)
"""The sizes of S2-Pro (S2 page, section 1)."""


class RandomTensors(Mapping[str, Tensor]):
    """Tensors by name, drawn when asked for and not kept: the same for the same seed, whatever the order."""

    def __init__(self, shapes: Mapping[str, Shape], device: torch.device, seed: int) -> None:
        self._shapes, self._device, self._seed = shapes, device, seed

    def __getitem__(self, name: str) -> Tensor:
        shape = self._shapes[name]
        generator = torch.Generator(self._device).manual_seed(self._seed + zlib.crc32(name.encode()))
        value = torch.randn(shape, generator=generator, device=self._device)
        if name.endswith(("alpha", "gamma")):
            return value.abs() * 0.1 + 0.5
        if "norm.weight" in name:
            return 1 + 0.1 * value
        if name.endswith("bias"):
            return value * 0.05
        fan_in = value[0].numel() if value.ndim > 1 else 1
        return value * (0.7 if value.ndim == 3 else 1.0) / fan_in**0.5

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def random_model(config: ModelConfig, device: torch.device, seed: int = 0) -> RandomTensors:
    return RandomTensors(expected_shapes(config), device, seed)


def random_codec(config: CodecConfig, device: torch.device, seed: int = 0) -> RandomTensors:
    with torch.device("meta"):
        shapes = {name: tuple(t.shape) for name, t in CodecModel(config).state_dict().items()}
    return RandomTensors(shapes, device, seed)
