"""The DualAR model: a slow transformer over time, a fast one over the codebooks of a frame.

Module and parameter names are the family's raw tensor names, so a checked checkpoint loads with
`load_state_dict(strict=True)`. It knows no tokeniser and no text: ids and codes in, logits out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.config import ModelConfig, StackConfig
from engine.model.layers import Block, RMSNorm, rope_table

__all__ = ["DualAR", "KvCache"]


@dataclass(frozen=True, slots=True)
class KvCache:
    """Keys and values of one sequence: k, v [layers, ..., S, G, D]. Written in place by the model."""

    k: Tensor
    v: Tensor

    @classmethod
    def zeros(cls, stack: StackConfig, *shape: int, device: torch.device | None = None) -> KvCache:
        """Zeros of [layers, *shape, G, D]; the last of `shape` is the number of positions."""
        size = (stack.layers, *shape, stack.kv_heads, stack.head_dim)
        return cls(torch.zeros(size, device=device), torch.zeros(size, device=device))

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        return self.k[index], self.v[index]

    def slot(self, index: int) -> KvCache:
        """A view of one slot of a pool [layers, slots, S, G, D]."""
        return KvCache(self.k[:, index], self.v[:, index])


class DualAR(nn.Module):
    def __init__(self, config: ModelConfig, semantic_begin: int, im_end: int) -> None:
        """Ids come from the tokenizer: the semantic range starts at `semantic_begin`."""
        super().__init__()
        slow, fast = config.slow, config.fast
        self.config = config
        self.semantic_begin = semantic_begin
        self.semantic_end = semantic_begin + config.codebook_size - 1
        self.im_end = im_end
        self.embeddings = nn.Embedding(slow.vocab_size, slow.dim)
        self.codebook_embeddings = nn.Embedding(config.num_codebooks * config.codebook_size, slow.dim)
        self.layers = nn.ModuleList(Block(slow) for _ in range(slow.layers))
        self.norm = RMSNorm(slow.dim, slow.norm_eps)
        if not config.tie_word_embeddings:
            self.output = nn.Linear(slow.dim, slow.vocab_size, bias=False)
        if config.has_project_in:
            self.fast_project_in = nn.Linear(slow.dim, fast.dim)
        self.fast_embeddings = nn.Embedding(config.codebook_size, fast.dim)
        self.fast_layers = nn.ModuleList(Block(fast) for _ in range(fast.layers))
        self.fast_norm = RMSNorm(fast.dim, fast.norm_eps)
        self.fast_output = nn.Linear(fast.dim, config.codebook_size, bias=False)
        bf16 = config.rope_table_bf16
        self.register_buffer(
            "slow_rope",
            rope_table(slow.head_dim, slow.rope_base, slow.max_seq_len, bf16=bf16),
            persistent=False,
        )
        self.register_buffer(
            "fast_rope",
            rope_table(fast.head_dim, fast.rope_base, config.num_codebooks, bf16=bf16),
            persistent=False,
        )
        offsets = torch.arange(config.num_codebooks) * config.codebook_size
        self.register_buffer("codebook_offsets", offsets, persistent=False)

    def embed(self, columns: Tensor) -> Tensor:
        """Columns int [..., 1+K, T] -> slow inputs [..., T, C].

        Semantic positions add all K codebook rows, and the whole sum is scaled by 1/sqrt(K+1).
        """
        tokens, codes = columns[..., 0, :], columns[..., 1:, :]
        x = self.embeddings(tokens)
        spoken = (tokens >= self.semantic_begin) & (tokens <= self.semantic_end)
        summed = x + self.codebook_embeddings(codes + self.codebook_offsets[:, None]).sum(dim=-3)
        if self.config.scale_codebook_embeddings:
            summed = summed / math.sqrt(self.config.num_codebooks + 1)
        return torch.where(spoken[..., None], summed, x)

    def slow(self, columns: Tensor, start: int = 0, cache: KvCache | None = None) -> tuple[Tensor, Tensor]:
        """Columns [..., 1+K, T] at positions start.. -> (normed hidden, fast input), each [..., T, C]."""
        x = self.embed(columns)
        table = self.slow_rope[start : start + x.shape[-2]]
        for index, block in enumerate(self.layers):
            x = block(x, table, start, cache.layer(index) if cache else None)
        hidden = self.norm(x)
        return hidden, hidden if self.config.norm_fastlayer_input else x

    def semantic_logits(self, hidden: Tensor) -> Tensor:
        """Logits of the ids that may follow: [..., semantic codes 0..n-1, then im_end]."""
        weight = self.embeddings.weight if self.config.tie_word_embeddings else self.output.weight
        rows = torch.cat([weight[self.semantic_begin : self.semantic_end + 1], weight[self.im_end, None]])
        return hidden @ rows.T

    def project(self, fast_input: Tensor) -> Tensor:
        """Slow output [..., C] -> input of the fast stack's position 0."""
        return self.fast_project_in(fast_input) if self.config.has_project_in else fast_input

    def fast(self, x: Tensor, start: int, cache: KvCache | None = None) -> Tensor:
        """Fast inputs [..., T, Cf] at codebook positions start.. -> logits [..., T, codebook size]."""
        table = self.fast_rope[start : start + x.shape[-2]]
        for index, block in enumerate(self.fast_layers):
            x = block(x, table, start, cache.layer(index) if cache else None)
        return self.fast_output(self.fast_norm(x))
