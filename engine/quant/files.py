"""FP8 checkpoints on disk: safetensors under raw names, scales beside their weights.

A product `x.weight` [N, K] is stored as F8_E4M3 with `x.weight_scale` beside it, two-dimensional, one entry for each
group of the scheme that config.json names: F32, or U8 holding the exponents of UE8M0 (not every safetensors reader
knows F8_E8M0). Everything else keeps the dtype it had. Names, shapes and dtypes are checked in the files' headers,
before any weight is read; a tensor's bytes are mapped, not read, until somebody copies them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.config import ModelConfig
from engine.quant.formats import Grouping, Quantised
from engine.quant.model import is_product
from engine.quant.schemes import file_scheme
from engine.weights import WeightsError, expected_shapes

__all__ = ["SHARD_BYTES", "StoredTensors", "write_tensors"]

SHARD_BYTES = 2 << 30
SCALE_SUFFIX = "_scale"
PLAIN_DTYPES = ("F16", "BF16", "F32")

Header = tuple[str, tuple[int, ...]]
"""A tensor's dtype, in safetensors' words, and its shape."""


class StoredTensors(Mapping[str, Tensor | Quantised]):
    """The tensors of an FP8 checkpoint by raw name, on the CPU, read when asked for. Raises WeightsError, and
    ConfigError for an unknown scheme."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        assert config.fp8_scheme is not None, "the checkpoint is not in FP8"
        self._grouping = file_scheme(config.fp8_scheme).weights
        self._names = list(expected_shapes(config))
        self._files: dict[str, Any] = {}
        headers: dict[str, Header] = {}
        for path in sorted(folder.glob("model*.safetensors")):
            file = _open(path)
            for name in file.keys():  # noqa: SIM118 (not a dict)
                if name in headers:
                    raise WeightsError(f"{name} stands in two files of {folder}")
                part = file.get_slice(name)
                headers[name] = part.get_dtype(), tuple(part.get_shape())
                self._files[name] = file
        if faults := _faults(headers, config, self._grouping):
            more = f"; and {len(faults) - 8} more" if len(faults) > 8 else ""
            raise WeightsError(f"{folder}, scheme {config.fp8_scheme}: {'; '.join(faults[:8])}{more}")

    def __getitem__(self, name: str) -> Tensor | Quantised:
        values = self._files[name].get_tensor(name)
        if not is_product(name):
            return values
        scale = self._files[name + SCALE_SUFFIX].get_tensor(name + SCALE_SUFFIX)
        return Quantised(values, scale.view(self._grouping.scale_dtype), self._grouping)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path} is not readable: {error}") from None


def _faults(headers: Mapping[str, Header], config: ModelConfig, grouping: Grouping) -> list[str]:
    expected: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {}
    for name, shape in expected_shapes(config).items():
        if is_product(name):
            expected[name] = ("F8_E4M3",), shape
            scale_dtype = "U8" if grouping.power_of_two else "F32"
            expected[name + SCALE_SUFFIX] = (scale_dtype,), grouping.scale_shape(shape)
        else:
            expected[name] = PLAIN_DTYPES, shape
    faults = [f"missing {name} {list(shape)}" for name, (_, shape) in expected.items() if name not in headers]
    for name, (dtype, shape) in headers.items():
        if name not in expected:
            faults.append(f"surplus {name} {list(shape)}")
        elif dtype not in expected[name][0] or shape != expected[name][1]:
            wanted = f"{' or '.join(expected[name][0])} {list(expected[name][1])}"
            faults.append(f"{name} is {dtype} {list(shape)}, expected {wanted}")
    return faults


def write_tensors(folder: Path, tensors: Mapping[str, Tensor | Quantised], *, shard_bytes: int = SHARD_BYTES) -> None:
    """All tensors into `folder` as model-00001-of-0000N.safetensors and their index. A weight and its scale are
    neighbours; no more than a shard is in memory at once."""
    shards: list[list[str]] = []
    shard: dict[str, Tensor] = {}

    def flush() -> None:
        save_file(shard, folder / f"shard-{len(shards):05}.safetensors")
        shards.append(list(shard))
        shard.clear()

    for name in tensors:
        parts = _stored(name, tensors[name])
        if shard and sum(t.nbytes for t in (*shard.values(), *parts.values())) > shard_bytes:
            flush()
        shard |= parts
    flush()
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards):
        file = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        (folder / f"shard-{number:05}.safetensors").rename(folder / file)
        weight_map |= dict.fromkeys(names, file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}, indent=1) + "\n")
    for file in set(weight_map.values()):
        (folder / file).chmod(index.stat().st_mode)  # safetensors writes files that nobody else may read


def _stored(name: str, tensor: Tensor | Quantised) -> dict[str, Tensor]:
    """What one tensor is in a file."""
    if not isinstance(tensor, Quantised):
        return {name: tensor.contiguous()}
    scale = tensor.scale.view(torch.uint8) if tensor.grouping.power_of_two else tensor.scale
    return {name: tensor.values, name + SCALE_SUFFIX: scale}
