"""Model configuration, read from a checkpoint's `config.json`.

Two forms exist in the Fish S2 family and both end in the same `ModelConfig`:

* `fish_qwen3_omni`: nested `text_config` and `audio_decoder_config`;
* `dual_ar` (or `naive`): one flat dictionary, where a null `fast_*` key means "as the slow model".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ConfigError", "ModelConfig", "StackConfig"]


class ConfigError(ValueError):
    """A config.json that cannot be used; the message names the key."""


@dataclass(frozen=True, slots=True)
class StackConfig:
    """One transformer stack (the slow or the fast one)."""

    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_dim: int
    vocab_size: int
    max_seq_len: int
    rope_base: float
    norm_eps: float
    qk_norm: bool
    qkv_bias: bool
    o_bias: bool

    def __post_init__(self) -> None:
        for name in (
            "layers",
            "dim",
            "heads",
            "kv_heads",
            "head_dim",
            "ffn_dim",
            "vocab_size",
            "max_seq_len",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")
        if self.head_dim % 2:
            raise ConfigError(f"head_dim must be even (rotary pairs), not {self.head_dim}")
        if self.heads % self.kv_heads:
            raise ConfigError(f"n_head {self.heads} is not a multiple of n_local_heads {self.kv_heads}")

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A DualAR model: a slow stack over time and a fast one over the codebooks of a frame."""

    slow: StackConfig
    fast: StackConfig
    num_codebooks: int
    residual_codebook_size: int
    """Codes at or above it are never drawn for codebooks 1..K-1."""
    scale_codebook_embeddings: bool
    norm_fastlayer_input: bool
    tie_word_embeddings: bool
    rope_table_bf16: bool = True

    def __post_init__(self) -> None:
        if not self.num_codebooks >= 1:
            raise ConfigError(f"num_codebooks must be positive, not {self.num_codebooks}")
        if not 1 <= self.residual_codebook_size <= self.fast.vocab_size:
            raise ConfigError(
                f"residual_codebook_size {self.residual_codebook_size} is not in 1..{self.fast.vocab_size}"
            )

    @property
    def codebook_size(self) -> int:
        """Rows of the fast vocabulary: as many as there are semantic tokens."""
        return self.fast.vocab_size

    @property
    def has_project_in(self) -> bool:
        return self.slow.dim != self.fast.dim

    @classmethod
    def read(cls, path: Path) -> ModelConfig:
        """From a checkpoint folder or a config.json. Raises ConfigError."""
        file = path / "config.json" if path.is_dir() else path
        try:
            data = json.loads(file.read_text())
        except FileNotFoundError:
            raise ConfigError(f"{file} is missing") from None
        except json.JSONDecodeError as error:
            raise ConfigError(f"{file} is not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ConfigError(f"{file} must hold an object")
        return cls.parse(data)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> ModelConfig:
        """From the parsed config.json of either form. Raises ConfigError."""
        kind = data.get("model_type")
        if kind == "fish_qwen3_omni":
            return _parse_omni(data)
        if kind in ("dual_ar", "naive"):
            return _parse_flat(data)
        raise ConfigError(f"model_type is {kind!r}; known are 'fish_qwen3_omni', 'dual_ar' and 'naive'")


def _need(data: Mapping[str, Any], key: str, where: str) -> Any:
    value = data.get(key)
    if value is None:
        raise ConfigError(f"{where} lacks {key!r}")
    return value


def _stack(data: Mapping[str, Any], where: str) -> StackConfig:
    """Defaults for missing keys are those of the family (n_local_heads -1 means n_head, and so on)."""
    dim, heads = int(_need(data, "dim", where)), int(_need(data, "n_head", where))
    kv_heads = data.get("n_local_heads")
    ffn_dim = data.get("intermediate_size")
    if ffn_dim is None:
        ffn_dim = -(-int(2 * 4 * dim / 3) // 256) * 256
    return StackConfig(
        layers=int(_need(data, "n_layer", where)),
        dim=dim,
        heads=heads,
        kv_heads=heads if kv_heads in (None, -1) else int(kv_heads),
        head_dim=int(data.get("head_dim") or dim // heads),
        ffn_dim=int(ffn_dim),
        vocab_size=int(_need(data, "vocab_size", where)),
        max_seq_len=int(data.get("max_seq_len") or 2048),
        rope_base=float(data.get("rope_base") or 10_000),
        norm_eps=float(data.get("norm_eps") or 1e-5),
        qk_norm=bool(data.get("attention_qk_norm", False)),
        qkv_bias=bool(data.get("attention_qkv_bias", False)),
        o_bias=bool(data.get("attention_o_bias", False)),
    )


def _parse_omni(data: Mapping[str, Any]) -> ModelConfig:
    text = _need(data, "text_config", "config.json")
    audio = _need(data, "audio_decoder_config", "config.json")
    slow, fast = _stack(text, "text_config"), _stack(audio, "audio_decoder_config")
    text_dim = audio.get("text_dim")
    if text_dim is not None and text_dim != slow.dim:
        raise ConfigError(f"audio_decoder_config.text_dim {text_dim} differs from text_config.dim {slow.dim}")
    if data.get("rope_interleaved", True) is not True:
        raise ConfigError("rope_interleaved must be true: the family rotates pairs (2i, 2i+1)")
    return ModelConfig(
        slow=slow,
        fast=fast,
        num_codebooks=int(_need(audio, "num_codebooks", "audio_decoder_config")),
        # S2-Pro's config does not say it; its codec has 1024 entries in every residual codebook.
        residual_codebook_size=int(data.get("residual_codebook_size") or min(1024, fast.vocab_size)),
        scale_codebook_embeddings=bool(data.get("scale_codebook_embeddings", True)),
        norm_fastlayer_input=bool(data.get("norm_fastlayer_input", True)),
        tie_word_embeddings=bool(text.get("tie_word_embeddings", True)),
        rope_table_bf16=bool(data.get("rope_table_bf16", True)),
    )


def _parse_flat(data: Mapping[str, Any]) -> ModelConfig:
    slow = _stack(data, "config.json")
    merged = dict(data)
    for key in (
        "dim",
        "n_head",
        "n_local_heads",
        "head_dim",
        "intermediate_size",
        "attention_qkv_bias",
        "attention_qk_norm",
        "attention_o_bias",
    ):
        if data.get(f"fast_{key}") is not None:
            merged[key] = data[f"fast_{key}"]
    merged["n_layer"] = _need(data, "n_fast_layer", "config.json")
    merged["vocab_size"] = codebook_size = int(_need(data, "codebook_size", "config.json"))
    num_codebooks = int(_need(data, "num_codebooks", "config.json"))
    merged["max_seq_len"] = num_codebooks + 1
    return ModelConfig(
        slow=slow,
        fast=_stack(merged, "config.json"),
        num_codebooks=num_codebooks,
        residual_codebook_size=int(data.get("residual_codebook_size") or min(1024, codebook_size)),
        scale_codebook_embeddings=bool(data.get("scale_codebook_embeddings", False)),
        norm_fastlayer_input=bool(data.get("norm_fastlayer_input", False)),
        tie_word_embeddings=bool(data.get("tie_word_embeddings", True)),
        rope_table_bf16=bool(data.get("rope_table_bf16", True)),
    )
