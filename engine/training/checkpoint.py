"""Checkpoints as folders of small safetensors shards, states that go on, and means of weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

__all__ = ["MeanWeights", "chain_of", "load_checkpoint", "save_checkpoint", "save_whole"]

SHARD_BYTES = 14 * 1024 * 1024


class MeanWeights:
    """Exponential mean of a model's parameters, in fp32."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.values = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        names, current = zip(*((n, p.detach()) for n, p in model.named_parameters()), strict=True)
        torch._foreach_lerp_([self.values[n] for n in names], list(current), 1 - self.decay)


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any], dtype: torch.dtype) -> None:
    """Floating tensors as `dtype`, in shards of at most 14 MiB (or one tensor), and `facts.json`.

    Raises FloatingPointError, and leaves what is in the folder alone, if a tensor is not finite.
    """
    if broken := [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]:
        raise FloatingPointError(f"not finite: {', '.join(broken[:5])}")
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().to("cpu", dtype if tensor.is_floating_point() else tensor.dtype).contiguous()
        if size + tensor.nbytes > SHARD_BYTES and shards[-1]:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    for old in folder.glob("shard-*.safetensors"):
        old.unlink()
    for index, shard in enumerate(shards):
        save_file(shard, str(folder / f"shard-{index}.safetensors"))
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors as stored, and the facts. Raises FileNotFoundError."""
    facts = json.loads((folder / "facts.json").read_text())
    tensors: dict[str, Tensor] = {}
    for shard in sorted(folder.glob("shard-*.safetensors")):
        tensors |= load_file(str(shard))
    return tensors, facts


def chain_of(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """What is kept of a checkpoint's stretch, and of those before it, in the facts of one that goes on from it."""
    return [*facts["earlier"], {"stretch": facts["stretch"], "steps": facts["steps"], "log": facts["log"][-1:]}]


def save_whole(state: Any, file: Path) -> None:
    """`torch.save` that may be killed at any moment: the file is the old one until the new one is whole."""
    torch.save(state, unfinished := file.with_suffix(".unfinished"))
    unfinished.replace(file)
