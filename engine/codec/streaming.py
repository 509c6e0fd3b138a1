"""Streaming state of the codec: what each causal layer remembers of a stream, one row per slot.

A layer that looks back registers a buffer by name. Decoding a whole clip is the same code run once from zeros,
so "chunked equals whole" holds by construction: no layer has a second path.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Context", "StreamState"]


class Context:
    """The state of some rows while they are decoded; writes go to the tensors it was made from."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors

    def extend(self, name: str, x: Tensor) -> Tensor:
        """x [B, C, T] with the layer's last inputs [B, C, P] in front; remembers the new last ones."""
        past = self._tensors[name]
        joined = torch.cat([past.to(x.dtype), x], dim=-1)
        past.copy_(joined[..., joined.shape[-1] - past.shape[-1] :])
        return joined

    def extend_time_major(self, name: str, x: Tensor) -> Tensor:
        """The same for x [B, T, …] and past [B, P, …] (keys and values)."""
        past = self._tensors[name]
        joined = torch.cat([past.to(x.dtype), x], dim=1)
        past.copy_(joined[:, joined.shape[1] - past.shape[1] :])
        return joined

    def advance(self, name: str, frames: int) -> Tensor:
        """The layer's position before these frames, int64 [B]; moves it on."""
        position = self._tensors[name]
        before = position.clone()
        position += frames
        return before


class StreamState:
    """Tensors [S, …] by layer name, zero for a fresh stream."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors

    @classmethod
    def zeros(cls, shapes: dict[str, tuple[int, ...]], slots: int, device: torch.device) -> StreamState:
        """`shapes` are per slot; an empty shape is a position counter."""
        return cls(
            {
                name: torch.zeros((slots, *shape), dtype=torch.float32 if shape else torch.int64, device=device)
                for name, shape in shapes.items()
            }
        )

    def reset(self, slot: int) -> None:
        """Forget one stream; the others are untouched."""
        for tensor in self._tensors.values():
            tensor[slot] = 0

    def row(self, slot: int) -> Context:
        """The state of one slot, as a batch of one."""
        return Context({name: tensor[slot : slot + 1] for name, tensor in self._tensors.items()})

    def rows(self) -> Context:
        """The state of all slots as one batch."""
        return Context(self._tensors)
