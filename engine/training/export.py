"""Checkpoints → a model folder in the S2 format, with its voices: `python -m engine.training export`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.codec.codec import Codec, CodecModel
from engine.codec.config import CodecConfig
from engine.config import ModelConfig
from engine.load import load_model
from engine.training.card import card, notices
from engine.training.checkpoint import load_checkpoint
from engine.training.clips import read_clips
from engine.training.further import language_of
from engine.weights import check, expected_shapes, to_raw_names

__all__ = ["export_model", "export_voices"]

COPIED = ("config.json", "codec.json", "tokenizer.json", "tokenizer_config.json")
MAX_BYTES = 60_000_000
"""Of the folder; a bundled model must stay a quick download."""


def export_model(
    template: Path,
    out: Path,
    *,
    model: Path | None,
    codec: Path | None,
    manifest: Mapping[str, Any],
    figures: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write configs and tokenizer of `template`, weights of the checkpoints (or the template's where None), the card,
    and the notices of what it was made from (`manifest`, as `data` writes it).

    Raises WeightsError for a checkpoint of other sizes, ValueError for a folder that would be too big."""
    out.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        if (template / name).exists():
            shutil.copy(template / name, out / name)
    model_tensors, model_facts = _weights(model, template / "model.safetensors", prefix="")
    codec_tensors, codec_facts = _weights(codec, template / "codec.safetensors", prefix="model.")
    if "config" in codec_facts:
        (out / "codec.json").write_text(json.dumps(codec_facts["config"], indent=1) + "\n")
    model_tensors = to_raw_names(model_tensors)
    check(model_tensors, expected_shapes(ModelConfig.read(out)), str(model or template))
    with torch.device("meta"):
        shapes = {n: tuple(t.shape) for n, t in CodecModel(CodecConfig.read(out)).state_dict().items()}
    check(codec_tensors, shapes, str(codec or template))
    save_file({n: t.half().contiguous() for n, t in model_tensors.items()}, str(out / "model.safetensors"))
    save_file({n: t.half().contiguous() for n, t in codec_tensors.items()}, str(out / "codec.safetensors"))
    (out / "README.md").write_text(card(out.name, manifest, {"Model": model_facts, "Codec": codec_facts}, figures))
    (out / "NOTICE").write_text(notices(manifest))
    load_model(out), Codec.load(out)  # what was written can be served
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    if size > MAX_BYTES:
        raise ValueError(f"{out} has {size / 1e6:.1f} MB, at most {MAX_BYTES / 1e6:.0f}")


def _weights(checkpoint: Path | None, default: Path, *, prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if checkpoint is None:
        return load_file(str(default)), {}
    tensors, facts = load_checkpoint(checkpoint)
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}, facts


def export_voices(model: Path, references: Iterable[Path], wanted: Collection[str]) -> None:
    """Make the teacher's clips in the folders the references of the wanted voices: codes, transcript and language under
    `voices/NAME`. Raises ValueError for a voice without a clip."""
    found = {clip.voice: (folder / clip.file, clip.spoken) for folder in references for clip in read_clips(folder)}
    if missing := [voice for voice in wanted if voice not in found]:
        raise ValueError(f"no reference clip of {', '.join(missing)}")
    codec = Codec.load(model)
    for voice in wanted:
        file, spoken = found[voice]
        samples, rate_hz = soundfile.read(file, dtype="float32")
        home = model / "voices" / voice
        home.mkdir(parents=True, exist_ok=True)
        np.save(home / "codes.npy", codec.encode(soxr.resample(samples, rate_hz, codec.config.sample_rate)))
        (home / "transcript.txt").write_text(spoken + "\n", encoding="utf-8")
        (home / "language.txt").write_text(language_of(voice) + "\n")
