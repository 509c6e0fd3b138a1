"""Model configuration, read from a checkpoint's `config.json`.

Two forms exist in the Fish S2 family and both end in the same `ModelConfig`:

* `fish_qwen3_omni`: nested `text_config` and `audio_decoder_config`;
* `dual_ar` (or `naive`): one flat dictionary, where a null `fast_*` key means "as the slow model".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FP8_SCHEMES", "QUANT_METHOD", "AlignmentHead", "ConfigError", "ModelConfig", "StackConfig"]

QUANT_METHOD = "kingfisher-fp8"
"""Names our own layout in config.json, so that no other reader takes it for one it knows."""
FP8_SCHEMES = ("channels", "bsgemm", "mxfp8")
"""What a converted checkpoint may be in (engine.quant.schemes)."""

_FAST_KEYS = (
    "dim",
    "n_head",
    "n_local_heads",
    "head_dim",
    "intermediate_size",
    "attention_qkv_bias",
    "attention_qk_norm",
    "attention_o_bias",
)


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
class AlignmentHead:
    """A query head of the slow stack that was trained to look at the text being spoken."""

    layer: int
    head: int


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
    alignment: AlignmentHead | None = None
    """None: no head of this model tells which character is being spoken."""
    fp8_scheme: str | None = None
    """How the layers' products are stored (engine.quant.schemes). None: as plain floats."""
    is_latin_only: bool = False
    """Taught no letters but Latin ones: `latin_only`, a key of our own."""

    def __post_init__(self) -> None:
        if self.alignment is not None and not (
            0 <= self.alignment.layer < self.slow.layers and 0 <= self.alignment.head < self.slow.heads
        ):
            raise ConfigError(f"{self.alignment} is not among {self.slow.layers} layers of {self.slow.heads} heads")
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
        except ValueError as error:
            raise ConfigError(f"{file} is not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ConfigError(f"{file} must hold an object")
        return cls.parse(data)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> ModelConfig:
        """From the parsed config.json of either form. Raises ConfigError."""
        top = _Section(data, "config.json")
        kind = data.get("model_type")
        if kind == "fish_qwen3_omni":
            return _parse_omni(top)
        if kind in ("dual_ar", "naive"):
            return _parse_flat(top)
        raise ConfigError(f"model_type is {kind!r}; known are 'fish_qwen3_omni', 'dual_ar' and 'naive'")


class _Section:
    """One JSON object of the config. A key that is null counts as missing; errors name the key and where it stands."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self._data, self._where = data, where

    def integer(self, key: str, default: int | None = None, *, unset: int | None = None) -> int:
        """A positive integer; `unset` is a value that also means the default."""
        value = self._get(key, default)
        if value == unset and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._wrong(key, "a positive integer", value)
        return value

    def index(self, key: str) -> int:
        """An integer from 0."""
        value = self._get(key, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "an integer from 0", value)
        return value

    def number(self, key: str, default: float) -> float:
        """A positive number."""
        value = self._get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
            raise self._wrong(key, "a positive number", value)
        return float(value)

    def text(self, key: str) -> str:
        value = self._get(key, None)
        if not isinstance(value, str):
            raise self._wrong(key, "a string", value)
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def section(self, key: str) -> _Section:
        value = self._get(key, None)
        if not isinstance(value, dict):
            raise self._wrong(key, "an object", value)
        return _Section(value, key)

    def has(self, key: str) -> bool:
        return self._data.get(key) is not None

    def fast(self, keys: Iterable[str], **fixed: int) -> _Section:
        """The flat form's view of the fast stack: a `fast_*` key stands for the slow one of that name if it is set."""
        data = dict(self._data) | {key: self._data[f"fast_{key}"] for key in keys if self.has(f"fast_{key}")} | fixed
        return _Section(data, f"{self._where} (fast_*)")

    def _get(self, key: str, default: Any) -> Any:
        value = self._data.get(key)
        if value is None and default is None:
            raise ConfigError(f"{self._where} lacks {key!r}")
        return default if value is None else value

    def _wrong(self, key: str, expected: str, value: Any) -> ConfigError:
        return ConfigError(f"{self._where}: {key} must be {expected}, not {value!r}")


def _stack(section: _Section) -> StackConfig:
    """Defaults for missing keys are those of the family (n_local_heads -1 means n_head, and so on)."""
    dim, heads = section.integer("dim"), section.integer("n_head")
    return StackConfig(
        layers=section.integer("n_layer"),
        dim=dim,
        heads=heads,
        kv_heads=section.integer("n_local_heads", heads, unset=-1),
        head_dim=section.integer("head_dim", dim // heads),
        ffn_dim=section.integer("intermediate_size", -(-int(2 * 4 * dim / 3) // 256) * 256),
        vocab_size=section.integer("vocab_size"),
        max_seq_len=section.integer("max_seq_len", 2048),
        rope_base=section.number("rope_base", 10_000),
        norm_eps=section.number("norm_eps", 1e-5),
        qk_norm=section.flag("attention_qk_norm", False),
        qkv_bias=section.flag("attention_qkv_bias", False),
        o_bias=section.flag("attention_o_bias", False),
    )


def _parse_omni(top: _Section) -> ModelConfig:
    text, audio = top.section("text_config"), top.section("audio_decoder_config")
    slow, fast = _stack(text), _stack(audio)
    text_dim = audio.integer("text_dim", slow.dim)
    if text_dim != slow.dim:
        raise ConfigError(f"audio_decoder_config.text_dim {text_dim} differs from text_config.dim {slow.dim}")
    return _model(top, slow, fast, audio.integer("num_codebooks"), text.flag("tie_word_embeddings", True), True)


def _parse_flat(top: _Section) -> ModelConfig:
    num_codebooks = top.integer("num_codebooks")
    fast = top.fast(
        _FAST_KEYS,
        n_layer=top.integer("n_fast_layer"),
        vocab_size=top.integer("codebook_size"),
        max_seq_len=num_codebooks + 1,
    )
    return _model(top, _stack(top), _stack(fast), num_codebooks, top.flag("tie_word_embeddings", True), False)


def _model(
    top: _Section, slow: StackConfig, fast: StackConfig, num_codebooks: int, is_tied: bool, is_s2: bool
) -> ModelConfig:
    """`is_s2`: the form whose name implies scaled codebook embeddings and post-norm conditioning."""
    if not top.flag("rope_interleaved", True):
        raise ConfigError("rope_interleaved must be true: the family rotates pairs (2i, 2i+1)")
    return ModelConfig(
        slow=slow,
        fast=fast,
        num_codebooks=num_codebooks,
        # S2-Pro's config does not say it; its codec has 1024 entries in every residual codebook.
        residual_codebook_size=top.integer("residual_codebook_size", min(1024, fast.vocab_size)),
        scale_codebook_embeddings=top.flag("scale_codebook_embeddings", is_s2),
        norm_fastlayer_input=top.flag("norm_fastlayer_input", is_s2),
        tie_word_embeddings=is_tied,
        rope_table_bf16=top.flag("rope_table_bf16", True),
        alignment=_alignment(top),
        fp8_scheme=_fp8_scheme(top),
        is_latin_only=top.flag("latin_only", False),
    )


def _alignment(top: _Section) -> AlignmentHead | None:
    """Keys of our own: both or none."""
    if not top.has("alignment_layer") and not top.has("alignment_head"):
        return None
    return AlignmentHead(top.index("alignment_layer"), top.index("alignment_head"))


def _fp8_scheme(top: _Section) -> str | None:
    """Of a checkpoint that `kingfisher convert` wrote. Other quantisations are refused: their files differ."""
    if not top.has("quantization_config"):
        return None
    section = top.section("quantization_config")
    if (method := section.text("quant_method")) != QUANT_METHOD:
        raise ConfigError(f"quantization_config.quant_method is {method!r}; known is {QUANT_METHOD!r}")
    return section.text("scheme")
