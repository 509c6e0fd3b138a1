"""Codec hyper-parameters, from `codec.json`; the full S2 codec's are built in, since its checkpoint ships none."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from engine.config import ConfigError

__all__ = ["CodecConfig"]


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """Names as in codec.json. Rates are strides: the encoder's in order, the decoder's in order."""

    sample_rate: int
    encoder_dim: int
    encoder_rates: tuple[int, ...]
    latent_dim: int
    decoder_dim: int
    decoder_rates: tuple[int, ...]
    downsample_factor: tuple[int, ...]
    encoder_transformer_layers: int
    encoder_transformer_heads: int
    encoder_window: int
    transformer_layers: int
    transformer_heads: int
    transformer_ffn: int
    transformer_window: int
    n_codebooks: int
    semantic_codebook_size: int
    residual_codebook_size: int
    codebook_dim: int
    rope_base: float = 10_000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        if math.prod(self.encoder_rates) != math.prod(self.decoder_rates):
            raise ConfigError(
                f"encoder_rates {self.encoder_rates} and decoder_rates {self.decoder_rates} differ in product"
            )
        if self.encoder_dim * 2 ** len(self.encoder_rates) != self.latent_dim:
            raise ConfigError(f"encoder_dim {self.encoder_dim} does not double up to latent_dim {self.latent_dim}")
        if self.latent_dim % self.transformer_heads or self.latent_dim % self.encoder_transformer_heads:
            raise ConfigError(f"latent_dim {self.latent_dim} is not a multiple of its heads")

    @property
    def hop_samples(self) -> int:
        """Samples of one frame of codes."""
        return math.prod(self.decoder_rates) * math.prod(self.downsample_factor)

    @property
    def codebook_sizes(self) -> tuple[int, ...]:
        return (self.semantic_codebook_size, *[self.residual_codebook_size] * (self.n_codebooks - 1))

    @classmethod
    def s2(cls) -> CodecConfig:
        """The codec of S2-Pro (S2 page, section 5.1)."""
        return cls(
            sample_rate=44_100,
            encoder_dim=64,
            encoder_rates=(2, 4, 8, 8),
            latent_dim=1024,
            decoder_dim=1536,
            decoder_rates=(8, 8, 4, 2),
            downsample_factor=(2, 2),
            encoder_transformer_layers=4,
            encoder_transformer_heads=16,
            encoder_window=512,
            transformer_layers=8,
            transformer_heads=16,
            transformer_ffn=3072,
            transformer_window=128,
            n_codebooks=10,
            semantic_codebook_size=4096,
            residual_codebook_size=1024,
            codebook_dim=8,
        )

    @classmethod
    def read(cls, folder: Path) -> CodecConfig:
        """From codec.json, or S2's own if a checkpoint has none. Raises ConfigError."""
        file = folder / "codec.json"
        if not file.exists():
            return cls.s2()
        data: dict[str, Any] = json.loads(file.read_text())
        names = {f.name for f in fields(cls)}
        try:
            config = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in names})
        except TypeError as error:
            raise ConfigError(f"{file}: {error}") from None
        if data.get("hop_length", config.hop_samples) != config.hop_samples:
            raise ConfigError(f"{file}: hop_length {data['hop_length']} but the rates give {config.hop_samples}")
        return config
