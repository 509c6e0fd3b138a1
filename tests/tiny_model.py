"""`tiny-random`: a seeded checkpoint of about 1 MB in the S2 format, every tensor present. Speaks noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from engine.codec.codec import CodecModel
from engine.codec.config import CodecConfig
from engine.config import ModelConfig
from engine.weights import expected_shapes

SEMANTIC_CODES = 64
RESIDUAL_CODES = 32
CODEBOOKS = 4
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|voice|>"]

CONFIG: dict[str, Any] = {
    "model_type": "fish_qwen3_omni",
    "residual_codebook_size": RESIDUAL_CODES,
    "text_config": {
        "vocab_size": 336,
        "n_layer": 2,
        "dim": 48,
        "n_head": 4,
        "n_local_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "rope_base": 10000.0,
        "norm_eps": 1e-6,
        "max_seq_len": 512,
        "attention_qk_norm": True,
    },
    "audio_decoder_config": {
        "vocab_size": SEMANTIC_CODES,
        "num_codebooks": CODEBOOKS,
        "n_layer": 2,
        "dim": 32,
        "n_head": 2,
        "n_local_heads": 1,
        "head_dim": 16,
        "intermediate_size": 64,
        "rope_base": 10000.0,
        "norm_eps": 1e-6,
        "text_dim": 48,
    },
}

CODEC = {
    "sample_rate": 8000,
    "encoder_dim": 4,
    "encoder_rates": [2, 2, 2, 5],
    "latent_dim": 64,
    "decoder_dim": 64,
    "decoder_rates": [5, 2, 2, 2],
    "downsample_factor": [2, 2],
    "encoder_transformer_layers": 1,
    "encoder_transformer_heads": 4,
    "encoder_window": 8,
    "transformer_layers": 2,
    "transformer_heads": 4,
    "transformer_ffn": 96,
    "transformer_window": 4,
    "n_codebooks": CODEBOOKS,
    "semantic_codebook_size": SEMANTIC_CODES,
    "residual_codebook_size": RESIDUAL_CODES,
    "codebook_dim": 4,
}


CUDA_CONFIG = {
    **CONFIG,
    "text_config": {**CONFIG["text_config"], "dim": 128, "head_dim": 64, "intermediate_size": 192},
    "audio_decoder_config": {
        **CONFIG["audio_decoder_config"],
        "dim": 64,
        "head_dim": 64,
        "intermediate_size": 96,
        "text_dim": 128,
    },
}
CUDA_CODEC = {**CODEC, "encoder_dim": 8, "latent_dim": 128, "decoder_dim": 128, "transformer_heads": 2}
"""Sizes that the CUDA kernels take: heads of 64, channels in eights."""

DIVISIBLE = {
    **CONFIG,
    "text_config": {**CONFIG["text_config"], "dim": 256, "head_dim": 64, "intermediate_size": 384},
    "audio_decoder_config": {
        **CONFIG["audio_decoder_config"],
        "dim": 128,
        "head_dim": 64,
        "intermediate_size": 256,
        "text_dim": 256,
    },
}
"""Every product divides into blocks of 128 x 128, as in S2-Pro."""


def write_tiny_model(
    folder: Path, *, seed: int = 7, config: Mapping[str, Any] = CONFIG, codec: Mapping[str, Any] = CODEC
) -> Path:
    """Write the checkpoint; `config` may be any of the family's that keeps the vocabulary and the codebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "codec.json").write_text(json.dumps(codec))
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))

    tensors = {}
    for name, shape in expected_shapes(ModelConfig.parse(config)).items():
        if name.endswith("norm.weight"):
            tensors[name] = 1 + 0.1 * torch.randn(shape, generator=generator)
        else:
            tensors[name] = torch.randn(shape, generator=generator) / shape[-1] ** 0.5
    save_file({name: t.half().float() for name, t in tensors.items()}, folder / "model.safetensors")

    codec_model = CodecModel(CodecConfig.read(folder))
    state = {}
    for name, tensor in codec_model.state_dict().items():
        fan_in = max(1, tensor[0].numel()) if tensor.ndim > 1 else 1
        value = torch.randn(tensor.shape, generator=generator) * (0.7 / fan_in**0.5 if tensor.ndim > 1 else 0.05)
        if name.endswith(("alpha", "gamma")) or "norm.weight" in name:
            value = 0.5 + value.abs()
        state[name] = value.half()
    save_file(state, folder / "codec.safetensors")
    _write_voices(folder, generator)
    return folder


def _tokenizer() -> Tokenizer:
    """Byte-level, no merges: ids 0..255 are bytes, then control and semantic tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_special_tokens([f"<|semantic:{i}|>" for i in range(SEMANTIC_CODES)])
    return tokenizer


def _write_voices(folder: Path, generator: torch.Generator) -> None:
    for name, transcript in (("ada", "The quick brown fox."), ("bob", "Pack my box with jugs.")):
        home = folder / "voices" / name
        home.mkdir(parents=True, exist_ok=True)
        codes = torch.randint(0, RESIDUAL_CODES, (CODEBOOKS, 12), generator=generator)
        np.save(home / "codes.npy", codes.numpy().astype(np.int16))
        (home / "transcript.txt").write_text(transcript)
