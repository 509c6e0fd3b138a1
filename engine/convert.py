"""A checkpoint with its layers' products in FP8, ready to be served.

The new folder is half as big, loads without ever holding the weights in 16 bits, and holds what quantising the old one
would give, bit for bit. It is written beside its place and renamed, so that it is there whole or not at all.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import torch

from engine.config import QUANT_METHOD, ConfigError
from engine.cuda.quantised import quantised_form
from engine.quant.files import SHARD_BYTES, write_tensors
from engine.stored_model import StoredModel, open_model
from engine.weights import WeightsError

__all__ = ["convert"]

REPLACED = ("config.json", "model.safetensors", "model.safetensors.index.json", "model.pth")


@torch.inference_mode()
def convert(folder: Path, out: Path, scheme: str, *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write `out`. Raises ConfigError or WeightsError for a checkpoint that is in FP8 already or does not match its
    config, LayoutError where the scheme's groups do not tile a weight, FileExistsError where `out` is taken."""
    if out.exists():
        raise FileExistsError(f"{out} exists already")
    model = open_model(folder)
    if model.config.fp8_scheme:
        raise ConfigError(f"{folder} is in FP8 already ({model.config.fp8_scheme}); convert what it was made from")
    _check_finite(model, folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as aside:
        made = Path(aside) / out.name
        shutil.copytree(folder, made, ignore=lambda path, names: _replaced(folder, Path(path), names))
        facts = json.loads((folder / "config.json").read_text())
        facts["quantization_config"] = {"quant_method": QUANT_METHOD, "scheme": scheme}
        (made / "config.json").write_text(json.dumps(facts, indent=1) + "\n")
        write_tensors(made, quantised_form(model.config, _plain(model), scheme), shard_bytes=shard_bytes)
        made.rename(out)


def _plain(model: StoredModel) -> Mapping[str, torch.Tensor]:
    """A checkpoint that names no scheme holds plain tensors alone."""
    assert all(isinstance(tensor, torch.Tensor) for tensor in model.tensors.values())
    return model.tensors  # type: ignore[return-value]


def _check_finite(model: StoredModel, folder: Path) -> None:
    """A scale would hide an infinity, and one NaN would take its whole group along."""
    for name, tensor in _plain(model).items():
        if not bool(tensor.isfinite().all()):
            raise WeightsError(f"{folder}: {name} holds numbers that are not finite")


def _replaced(folder: Path, at: Path, names: list[str]) -> list[str]:
    """Weights and config.json at the top of the folder; shards too."""
    if at != folder:
        return []
    return [name for name in names if name in REPLACED or fnmatch(name, "model-*.safetensors")]
