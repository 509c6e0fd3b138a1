"""Codec checkpoints: `codec.safetensors` with plain weights, or the family's `codec.pth` with weight norm.

Weight norm comes in two spellings and is fused here: w = g * v / |v|, the norm over all dims but the first (for a
transposed convolution that is the *input* channel, as in torch).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file

from engine.weights import Shape, WeightsError, check

__all__ = ["fuse_weight_norm", "load_codec_weights"]

# Rotary tables and masks that old checkpoints carry along; they are rebuilt, never read.
STALE = re.compile(r"(encoder\.block\.\d+\.block\.5|quantizer\.(pre|post)_module)\.(freqs_cis|causal_mask)")

_SPELLINGS = (
    (".parametrizations.weight.original0", ".parametrizations.weight.original1"),
    (".weight_g", ".weight_v"),
)


def load_codec_weights(folder: Path, expected: Mapping[str, Shape]) -> dict[str, torch.Tensor]:
    """Fused tensors, checked strictly against `expected`. Raises WeightsError."""
    file = folder / "codec.safetensors"
    if file.exists():
        tensors = load_file(file)
    elif (file := folder / "codec.pth").exists():
        state = torch.load(file, map_location="cpu", weights_only=True)
        for wrapper in ("state_dict", "generator"):
            state = state.get(wrapper, state)
        tensors = {name.removeprefix("generator."): tensor for name, tensor in state.items()}
    else:
        raise WeightsError(f"{folder} holds neither codec.safetensors nor codec.pth")
    tensors = {name: t for name, t in tensors.items() if not STALE.fullmatch(name)}
    tensors = fuse_weight_norm(tensors)
    check(tensors, expected, str(file))
    return tensors


def fuse_weight_norm(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Replace (g, v) pairs of either spelling by their weight. Raises WeightsError for half a pair."""
    fused = dict(tensors)
    for g_suffix, v_suffix in _SPELLINGS:
        for g_name in [name for name in fused if name.endswith(g_suffix)]:
            stem = g_name.removesuffix(g_suffix)
            v_name = stem + v_suffix
            if v_name not in fused:
                raise WeightsError(f"{g_name} stands without {v_name}")
            g, v = fused.pop(g_name).float(), fused.pop(v_name).float()
            fused[stem + ".weight"] = g * v / v.flatten(1).norm(dim=1).view(-1, *[1] * (v.ndim - 1))
    return fused
