"""A checkpoint's model, opened but not built: what every backend starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.config import ConfigError, ModelConfig
from engine.model.dual_ar import DualAR
from engine.quant.files import StoredTensors
from engine.quant.formats import Quantised
from engine.tokenizer import Tokenizer
from engine.weights import load as load_weights

__all__ = ["StoredModel", "open_model"]


@dataclass(frozen=True, slots=True)
class StoredModel:
    config: ModelConfig
    tensors: Mapping[str, Tensor | Quantised]
    """By raw name, on the CPU, in the dtypes of the files; FP8 where `config.fp8_scheme` says so."""
    semantic_begin: int
    im_end: int

    def in_fp32(self) -> DualAR:
        """The executable specification of this model; FP8 weights as the numbers they stand for."""
        model = DualAR(self.config, self.semantic_begin, self.im_end)
        state = {name: _fp32(self.tensors[name]) for name in self.tensors}
        model.load_state_dict(state, strict=True, assign=True)
        return model.eval().requires_grad_(False)


def _fp32(tensor: Tensor | Quantised) -> Tensor:
    return tensor.dequantised() if isinstance(tensor, Quantised) else tensor.to(torch.float32)


def open_model(folder: Path) -> StoredModel:
    """Checked strictly against config.json and the tokenizer. Raises ConfigError, WeightsError, TokenizerError."""
    config, tokenizer = ModelConfig.read(folder), Tokenizer(folder)
    if tokenizer.semantic_count != config.codebook_size:
        raise ConfigError(
            f"{folder}: the tokenizer has {tokenizer.semantic_count} semantic tokens, "
            f"audio_decoder_config.vocab_size is {config.codebook_size}"
        )
    if (highest := max(tokenizer.semantic_end, tokenizer.im_end)) >= config.slow.vocab_size:
        raise ConfigError(f"{folder}: the tokenizer's id {highest} is outside vocab_size {config.slow.vocab_size}")
    tensors = StoredTensors(folder, config) if config.fp8_scheme else load_weights(folder, config)
    return StoredModel(config, tensors, tokenizer.semantic_begin, tokenizer.im_end)
