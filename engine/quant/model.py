"""A model whose layers' products are in FP8: each tensor is made when it is asked for.

Heads, embeddings and norms stay as they are: together they are a twentieth of a frame's bytes in S2-Pro, and the logits
depend on them directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from engine.quant.formats import Grouping, Quantised, quantise

__all__ = ["QuantisedModel", "is_product"]

_NORM_BEFORE = {
    "attention.wqkv.weight": "attention_norm.weight",
    "feed_forward.w1.weight": "ffn_norm.weight",
    "feed_forward.w3.weight": "ffn_norm.weight",
}
_PRODUCTS = (*_NORM_BEFORE, "attention.wo.weight", "feed_forward.w2.weight")


def is_product(name: str) -> bool:
    """Whether a raw tensor name is the weight of a matrix product in a layer of either transformer."""
    return _in_layer(name) in _PRODUCTS


def _in_layer(name: str) -> str:
    """`layers.3.attention.wo.weight` -> `attention.wo.weight`; empty for what is in no layer."""
    stack, _, rest = name.partition(".")
    return rest.partition(".")[2] if stack in ("layers", "fast_layers") else ""


class QuantisedModel(Mapping[str, Tensor | Quantised]):
    """Raw names -> tensors, products quantised, from unquantised ones [N, K] on any device.

    `fold_norms` multiplies the RMSNorm weights into the columns of the products that follow them and leaves ones in
    their place: the same function, for a kernel that applies no norm weights (csrc/frame.cu).
    """

    def __init__(self, tensors: Mapping[str, Tensor], grouping: Grouping, *, fold_norms: bool) -> None:
        self._tensors, self._grouping, self._folds = tensors, grouping, fold_norms

    def __getitem__(self, name: str) -> Tensor | Quantised:
        tensor, place = self._tensors[name], _in_layer(name)
        if place in _PRODUCTS:
            if self._folds and (norm := _NORM_BEFORE.get(place)):
                tensor = tensor.float() * self._tensors[name.removesuffix(place) + norm].float()
            return quantise(tensor, self._grouping)
        if self._folds and place in _NORM_BEFORE.values():
            return torch.ones_like(tensor)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
