"""Training the AR model: `python -m engine.training dualar`.

Teacher forcing over whole rows, in the engine's own modules. Dropout and the guide hang on as hooks: the modules that
are served know nothing of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.config import ModelConfig
from engine.model.dual_ar import DualAR
from engine.model.layers import Attention, apply_rope
from engine.tokenizer import Tokenizer
from engine.training.checkpoint import MeanWeights, chain_of, load_checkpoint, save_checkpoint, save_whole
from engine.training.rows import RowMaker

__all__ = ["DualArStretch", "DualArTrainer", "train_dualar"]

GUIDE_WEIGHT = 0.3
GUIDE_LAYER = 3
"""Or the last one, of a smaller model."""
WARM_UP_STEPS = LOG_EVERY = 100


@dataclass(frozen=True, slots=True)
class DualArStretch:
    seconds: float
    """Wall time; the learning rates follow it."""
    batch: int = 32
    matrix_rate: float = 0.015
    """Muon's, for the matrices of the blocks."""
    other_rate: float = 2e-3
    """AdamW's, for embeddings, norms and heads."""
    end_share: float = 0.02
    dropout: float = 0.15
    corruption: float = 0.06
    """Share of the codes read that are replaced by random ones, so that errors in generation are nothing new."""
    seed: int = 1
    steps: int | None = None
    """Counted steps in place of seconds: deterministic, for tests."""


class DualArTrainer:
    def __init__(self, config: ModelConfig, tokenizer: Tokenizer, stretch: DualArStretch, device: torch.device) -> None:
        torch.manual_seed(stretch.seed)
        self.config, self.tokenizer, self.stretch, self.device = config, tokenizer, stretch, device
        self.model = DualAR(config, tokenizer.semantic_begin, tokenizer.im_end).to(device)
        for embedding in (self.model.embeddings, self.model.codebook_embeddings, self.model.fast_embeddings):
            nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)
        blocks = [p for name, p in self.model.named_parameters() if p.ndim == 2 and "layers." in name]
        chosen = {id(p) for p in blocks}
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(blocks, lr=stretch.matrix_rate, weight_decay=0.01, momentum=0.95),
            torch.optim.AdamW(others, lr=stretch.other_rate, betas=(0.9, 0.98), weight_decay=0.01),
        ]
        self.rates = (stretch.matrix_rate, stretch.other_rate)
        self.mean = MeanWeights(self.model, 0.999)
        self.random = torch.Generator(device="cpu").manual_seed(stretch.seed)
        self.steps_done, self.seconds_done = 0, 0.0
        self.log: list[dict[str, float]] = []
        self.earlier: list[dict[str, Any]] = []
        """The stretches that this one goes on from."""
        self._guide = _Guide(self.model.layers[min(GUIDE_LAYER, len(self.model.layers) - 1)].attention)
        for block in (*self.model.layers, *self.model.fast_layers):
            for part in (block.attention, block.feed_forward):
                part.register_forward_hook(_dropout(stretch.dropout))

    # ---- state ---------------------------------------------------------------------------------------

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """A model's weights; the rest begins anew."""
        self.model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
        self.mean = MeanWeights(self.model, 0.999)

    def save(self, folder: Path, facts: dict[str, Any]) -> None:
        """Mean weights in half precision: small enough to be brought home, and what `export` ships."""
        facts = {"stretch": asdict(self.stretch), "earlier": self.earlier, **facts}
        save_checkpoint(folder, self.mean.values, facts, torch.float16)

    def load(self, folder: Path) -> None:
        tensors, facts = load_checkpoint(folder)
        self.earlier = chain_of(facts)
        self.start_from(tensors)

    def pause(self, file: Path, rows: RowMaker) -> None:
        """Everything, for going on as if nothing had been; several times the size of a checkpoint."""
        state = {
            "model": self.model.state_dict(),
            "mean": self.mean.values,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "random": self.random.get_state(),
            "dropout": torch.get_rng_state(),
            "rows": rows.state,
            "steps_done": self.steps_done,
            "seconds_done": self.seconds_done,
            "log": self.log,
            "earlier": self.earlier,
        }
        save_whole(state, file)

    def resume(self, file: Path, rows: RowMaker) -> None:
        state = torch.load(file, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.mean.values = state["mean"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.random.set_state(state["random"].cpu())
        torch.set_rng_state(state["dropout"].cpu())
        rows.state = state["rows"]
        self.steps_done, self.seconds_done = state["steps_done"], state["seconds_done"]
        self.log, self.earlier = state["log"], state["earlier"]

    # ---- losses --------------------------------------------------------------------------------------

    def losses(self, columns: Tensor, spans: Tensor) -> dict[str, Tensor]:
        """columns int64 [B, 1+K, T], spans int64 [B, T, 2] → mean losses: slow, fast, guide."""
        model = self.model
        targets = columns[:, :, 1:]
        is_speech = (targets[:, 0] >= model.semantic_begin) & (targets[:, 0] <= model.semantic_end)
        is_end = (targets[:, 0] == model.im_end) & torch.cat([torch.zeros_like(is_speech[:, :1]), is_speech[:, :-1]], 1)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            hidden, fast_input = model.slow(self._corrupted(columns)[:, :, :-1])
            wanted = is_speech | is_end
            slow_logits = model.semantic_logits(hidden[wanted])
            codes = targets.transpose(1, 2)[is_speech][:, 1:]
            first = model.project(fast_input[is_speech])
            fast_logits = model.fast(torch.cat([first[:, None], model.fast_embeddings(codes[:, :-1])], 1), 0)
        end_class = self.config.codebook_size
        classes = torch.where(is_end, end_class, targets[:, 0] - model.semantic_begin)[wanted]
        return {
            "slow": F.cross_entropy(slow_logits.float(), classes),
            "fast": F.cross_entropy(fast_logits[:, 1:].float().flatten(0, 1), codes[:, 1:].flatten()),
            "guide": self._guide.loss(spans[:, :-1]),
        }

    def _corrupted(self, columns: Tensor) -> Tensor:
        """Random codes in place of some that are read; the targets stay. Text and control tokens are never touched."""
        if not self.model.training:
            return columns
        spoken = (columns[:, 0] >= self.model.semantic_begin) & (columns[:, 0] <= self.model.semantic_end)
        chance = torch.rand(columns.shape, generator=self.random).to(self.device)
        drawn = torch.randint(self.config.residual_codebook_size, columns.shape, generator=self.random).to(self.device)
        hit = (chance < self.stretch.corruption) & spoken[:, None]
        hit[:, :2] = hit[:, 1:2]  # the token and its first code say the same and change together
        drawn[:, 0] = drawn[:, 1] + self.model.semantic_begin
        return torch.where(hit, drawn, columns)

    def step(self, columns: Tensor, spans: Tensor) -> dict[str, Tensor]:
        self.model.train()
        losses = self.losses(columns, spans)
        total = losses["slow"] + losses["fast"] + GUIDE_WEIGHT * losses["guide"]
        self.model.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        for optimizer in self.optimizers:
            optimizer.step()
        self.mean.update(self.model)
        self.steps_done += 1
        return losses


class _Guide:
    """Pulls one head's attention towards the word being spoken: alignment is learned in minutes instead of hours."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._seen: tuple[Tensor, Tensor] | None = None
        attention.register_forward_pre_hook(self._remember)

    def _remember(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._seen = inputs[0], inputs[1]

    def loss(self, spans: Tensor) -> Tensor:
        """spans int64 [B, T, 2] of columns; -log of the attention that head 0 spends inside, mean over known spans."""
        assert self._seen is not None, "the model has run"
        x, table = self._seen
        self._seen = None
        c = self._attention.config
        q, k, _ = self._attention.wqkv(x).split([c.q_width, c.kv_width, c.kv_width], dim=-1)
        q, k = (part.unflatten(-1, (-1, c.head_dim))[..., :1, :] for part in (q, k))
        if c.qk_norm:
            q, k = self._attention.q_norm(q), self._attention.k_norm(k)
        q, k = (apply_rope(part, table)[..., 0, :].float() for part in (q, k))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(c.head_dim)
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        mass = F.pad(scores.softmax(-1).cumsum(-1), (1, 0))
        inside = (mass.gather(-1, spans[..., 1:]) - mass.gather(-1, spans[..., :1]))[..., 0]
        known = spans[..., 1] > spans[..., 0]
        return -(inside.clamp(min=1e-6).log() * known).sum() / known.sum().clamp(min=1)


def _dropout(share: float) -> Callable[..., Tensor]:
    def drop(module: nn.Module, _: Any, output: Tensor) -> Tensor:
        return F.dropout(output, share, module.training)

    return drop


def stack(rows: RowMaker, batch: int, pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows padded behind, which causal attention never sees: columns int64 [B, 1+K, T], spans int64 [B, T, 2]."""
    made = [rows.make() for _ in range(batch)]
    longest = max(row.columns.shape[1] for row in made)
    columns = torch.zeros(batch, made[0].columns.shape[0], longest, dtype=torch.int64)
    columns[:, 0] = pad_id
    spans = torch.zeros(batch, longest, 2, dtype=torch.int64)
    for i, row in enumerate(made):
        columns[i, :, : row.columns.shape[1]] = torch.from_numpy(row.columns)
        spans[i, : len(row.spans)] = torch.from_numpy(row.spans)
    return columns.to(device), spans.to(device)


def train_dualar(
    trainer: DualArTrainer,
    rows: RowMaker,
    *,
    until_step: int | None = None,
    until_s: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """The stretch, or its part up to a step or to so many seconds of it. Returns its facts; the log goes to stdout."""
    stretch = trainer.stretch
    pad_id = trainer.tokenizer.special("<|pad|>")
    began = clock() - trainer.seconds_done
    sums: dict[str, Tensor] = {}
    while trainer.steps_done != until_step:
        trainer.seconds_done = clock() - began
        done = (
            trainer.steps_done / stretch.steps if stretch.steps is not None else trainer.seconds_done / stretch.seconds
        )
        if done >= 1 or trainer.seconds_done >= until_s:
            break
        share = stretch.end_share + (1 - stretch.end_share) * (1 + math.cos(math.pi * done)) / 2
        share *= min(1.0, (trainer.steps_done + 1) / WARM_UP_STEPS)
        for optimizer, rate in zip(trainer.optimizers, trainer.rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
        for name, loss in trainer.step(*stack(rows, stretch.batch, pad_id, trainer.device)).items():
            sums[name] = loss.detach() + sums.get(name, 0.0)
        if trainer.steps_done % LOG_EVERY == 0:
            means = {name: round(float(value) / LOG_EVERY, 4) for name, value in sums.items()}
            trainer.log.append({"step": trainer.steps_done, "s": round(trainer.seconds_done, 1), **means})
            sums = {}
            print(trainer.log[-1], flush=True)
    return {"steps": trainer.steps_done, "seconds": round(trainer.seconds_done, 1), "log": trainer.log}
