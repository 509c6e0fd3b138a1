"""Vector quantisation around the 21.5 Hz (or 18.75 Hz) bottleneck: one semantic codebook, then residual ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.config import CodecConfig
from engine.codec.layers import CausalConv, CausalConvTranspose, ConvNeXt, WindowTransformer
from engine.codec.streaming import Context

__all__ = ["Quantizer"]


class _Codebook(nn.Module):
    """One stage: project down, find the nearest direction, project the raw entry up."""

    def __init__(self, latent: int, size: int, dim: int) -> None:
        super().__init__()
        self.in_proj = nn.Conv1d(latent, dim, 1)
        self.out_proj = nn.Conv1d(dim, latent, 1)
        self.codebook = nn.Embedding(size, dim)

    def search(self, z: Tensor) -> Tensor:
        """z [B, C, T] -> codes int64 [B, T]: nearest by angle (both sides L2-normalised)."""
        latent = F.normalize(self.in_proj(z), dim=1).transpose(1, 2)
        entries = F.normalize(self.codebook.weight, dim=1)
        return (latent @ entries.T).argmax(dim=-1)

    def lookup(self, codes: Tensor) -> Tensor:
        """codes int [B, T] -> [B, C, T]; codes past the end are clamped, as the family does."""
        codes = codes.clamp(max=self.codebook.num_embeddings - 1)
        return self.out_proj(self.codebook(codes).transpose(1, 2))


class _Residual(nn.Module):
    def __init__(self, stages: list[_Codebook]) -> None:
        super().__init__()
        self.quantizers = nn.ModuleList(stages)


class Quantizer(nn.Module):
    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        c = config.latent_dim
        self.semantic_quantizer = _Residual([_Codebook(c, config.semantic_codebook_size, config.codebook_dim)])
        self.quantizer = _Residual(
            [_Codebook(c, config.residual_codebook_size, config.codebook_dim) for _ in range(config.n_codebooks - 1)]
        )
        self.pre_module, self.post_module = (self._transformer(config) for _ in range(2))
        self.downsample = nn.ModuleList(
            nn.ModuleList([CausalConv(c, c, factor, stride=factor), ConvNeXt(c)]) for factor in config.downsample_factor
        )
        self.upsample = nn.ModuleList(
            nn.ModuleList([CausalConvTranspose(c, c, factor, factor), ConvNeXt(c)])
            for factor in reversed(config.downsample_factor)
        )

    @staticmethod
    def _transformer(config: CodecConfig) -> WindowTransformer:
        return WindowTransformer(
            config.latent_dim,
            config.transformer_layers,
            config.transformer_heads,
            config.transformer_ffn,
            config.transformer_window,
            config.rope_base,
            config.norm_eps,
        )

    @property
    def _stages(self) -> list[_Codebook]:
        return [*self.semantic_quantizer.quantizers, *self.quantizer.quantizers]

    def decode(self, codes: Tensor, context: Context) -> Tensor:
        """int [B, K, F] -> latents [B, C, F * downsampling]. Negative codes are an IndexError."""
        stages = self._stages
        z = stages[0].lookup(codes[:, 0])
        for index in range(1, len(stages)):
            z = z + stages[index].lookup(codes[:, index])
        z = self.post_module(z, context)
        for upsample, block in self.upsample:
            z = block(upsample(z, context), context)
        return z

    def encode(self, z: Tensor, context: Context) -> Tensor:
        """latents [B, C, T] -> int64 [B, K, T / downsampling]; each stage codes what the ones before left."""
        for downsample, block in self.downsample:
            z = block(downsample(z, context), context)
        z = self.pre_module(z, context)
        codes = []
        for stage in self._stages:
            found = stage.search(z)
            codes.append(found)
            z = z - stage.lookup(found)
        return torch.stack(codes, dim=1)
