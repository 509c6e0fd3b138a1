"""Checkpoint files -> tensors by raw name, strictly.

Accepts what the family's checkpoints come as: sharded or single safetensors (or a legacy `model.pth`), names
HF-style (`text_model.…`, `audio_decoder.…`) or raw. Every tensor the config asks for must be there with its
shape, and nothing else may be: a wrong name must not fail silently as noise.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.config import ModelConfig, StackConfig

__all__ = ["WeightsError", "check", "expected_shapes", "load", "to_raw_names"]

Shape = tuple[int, ...]


class WeightsError(ValueError):
    """A checkpoint that does not match its config; the message names every tensor at fault."""


def load(folder: Path, config: ModelConfig) -> dict[str, torch.Tensor]:
    """Read, rename and check the model's tensors; dtypes stay as on disk. Raises WeightsError."""
    tensors = to_raw_names(_read(folder))
    check(tensors, expected_shapes(config), str(folder))
    return tensors


def check(tensors: Mapping[str, torch.Tensor], expected: Mapping[str, Shape], where: str) -> None:
    """Raise WeightsError unless names and shapes are exactly the expected ones."""
    faults = [f"missing {name} {list(shape)}" for name, shape in expected.items() if name not in tensors]
    for name, tensor in tensors.items():
        if name not in expected:
            faults.append(f"surplus {name} {list(tensor.shape)}")
        elif tuple(tensor.shape) != expected[name]:
            faults.append(f"{name} has shape {list(tensor.shape)}, expected {list(expected[name])}")
    if faults:
        shown = "; ".join(faults[:8])
        more = f"; and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise WeightsError(f"{where}: {shown}{more}")


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Raw tensor names and shapes of a model (358 of them for S2-Pro)."""
    slow, fast = config.slow, config.fast
    shapes: dict[str, Shape] = {
        "embeddings.weight": (slow.vocab_size, slow.dim),
        "norm.weight": (slow.dim,),
        "codebook_embeddings.weight": (config.num_codebooks * config.codebook_size, slow.dim),
        "fast_embeddings.weight": (config.codebook_size, fast.dim),
        "fast_norm.weight": (fast.dim,),
        "fast_output.weight": (config.codebook_size, fast.dim),
    }
    if not config.tie_word_embeddings:
        shapes["output.weight"] = (slow.vocab_size, slow.dim)
    if config.has_project_in:
        shapes["fast_project_in.weight"] = (fast.dim, slow.dim)
        shapes["fast_project_in.bias"] = (fast.dim,)
    for prefix, stack in (("layers", slow), ("fast_layers", fast)):
        for layer in range(stack.layers):
            shapes |= {f"{prefix}.{layer}.{name}": shape for name, shape in _layer_shapes(stack).items()}
    return shapes


def _layer_shapes(stack: StackConfig) -> dict[str, Shape]:
    qkv_width = stack.q_width + 2 * stack.kv_width
    shapes: dict[str, Shape] = {
        "attention.wqkv.weight": (qkv_width, stack.dim),
        "attention.wo.weight": (stack.dim, stack.q_width),
        "feed_forward.w1.weight": (stack.ffn_dim, stack.dim),
        "feed_forward.w3.weight": (stack.ffn_dim, stack.dim),
        "feed_forward.w2.weight": (stack.dim, stack.ffn_dim),
        "attention_norm.weight": (stack.dim,),
        "ffn_norm.weight": (stack.dim,),
    }
    if stack.qk_norm:
        shapes |= {"attention.q_norm.weight": (stack.head_dim,), "attention.k_norm.weight": (stack.head_dim,)}
    if stack.qkv_bias:
        shapes["attention.wqkv.bias"] = (qkv_width,)
    if stack.o_bias:
        shapes["attention.wo.bias"] = (stack.dim,)
    return shapes


def to_raw_names(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """HF-style or legacy names -> raw names. Raw names pass through."""
    if tensors and all(name.startswith("model.") for name in tensors):
        tensors = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    if any(name.startswith(("text_model.", "audio_decoder.")) for name in tensors):
        raw: dict[str, torch.Tensor] = {}
        for name, tensor in tensors.items():
            if (renamed := _hf_to_raw(name)) in raw:
                raise WeightsError(f"{name} and another tensor both mean {renamed}")
            raw[renamed] = tensor
        tensors = raw
    return _join_qkv(tensors)


def _hf_to_raw(name: str) -> str:
    if name == "text_model.lm_head.weight":
        return "output.weight"
    if name.startswith("text_model.model."):
        return name.removeprefix("text_model.model.")
    if name.startswith("audio_decoder.codebook_embeddings."):
        return name.removeprefix("audio_decoder.")
    if name.startswith("audio_decoder."):
        return "fast_" + name.removeprefix("audio_decoder.")
    return name


def _join_qkv(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Separate wq, wk, wv (legacy) become one wqkv, rows in that order."""
    joined = dict(tensors)
    for name in tensors:
        if ".wq." not in name:
            continue
        parts = [name.replace(".wq.", f".{part}.") for part in ("wq", "wk", "wv")]
        if absent := [part for part in parts if part not in joined]:
            raise WeightsError(f"{name} stands without {', '.join(absent)}")
        if (whole := name.replace(".wq.", ".wqkv.")) in joined:
            raise WeightsError(f"{name} stands beside {whole}")
        joined[whole] = torch.cat([joined.pop(part) for part in parts])
    return joined


def _read(folder: Path) -> dict[str, torch.Tensor]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        return _read_sharded(folder, index)
    if (folder / "model.safetensors").exists():
        return _read_safetensors(folder / "model.safetensors")
    legacy = folder / "model.pth"
    if legacy.exists():
        try:
            state = torch.load(legacy, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise WeightsError(f"{legacy} is not readable: {error}") from None
        state = state.get("state_dict", state)
        # Legacy training checkpoints carry modules of other tasks under "audio_".
        return {name: tensor for name, tensor in state.items() if "audio_" not in name}
    raise WeightsError(f"{folder} holds neither model.safetensors(.index.json) nor model.pth")


def _read_sharded(folder: Path, index: Path) -> dict[str, torch.Tensor]:
    try:
        weight_map: dict[str, str] = dict(json.loads(index.read_text())["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{index} holds no weight_map: {error!r}") from None
    tensors: dict[str, torch.Tensor] = {}
    for shard in sorted(set(weight_map.values())):
        if Path(shard).name != shard:
            raise WeightsError(f"{index.name} names a file outside the checkpoint: {shard!r}")
        if not (folder / shard).exists():
            raise WeightsError(f"{folder} lacks the shard {shard} that {index.name} names")
        tensors |= _read_safetensors(folder / shard)
    if wrong := sorted(set(weight_map) ^ set(tensors)):
        raise WeightsError(f"{index.name} and the shards differ in {', '.join(wrong[:8])}")
    return tensors


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} is not readable: {error}") from None
