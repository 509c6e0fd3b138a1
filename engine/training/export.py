"""Checkpoints → a model folder in the S2 format, with voices and a model card: `python -m engine.training export`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
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
from engine.training.checkpoint import load_checkpoint
from engine.training.clips import read_clips
from engine.training.corpus import NAMED_VOICES
from engine.weights import check, expected_shapes

__all__ = ["export_model", "export_voice"]

COPIED = ("config.json", "codec.json", "tokenizer.json", "tokenizer_config.json")
MAX_BYTES = 60_000_000
"""Of the folder; a bundled model must stay a quick download."""
LICENCES = {
    "teacher audio": "Kokoro-82M, Apache-2.0 (its notice is kept); blends of its styles, under names of our own",
    "texts": "WordNet 3.1, Princeton WordNet licence (its notice is kept); templates and replies, own",
}


def export_model(
    template: Path, out: Path, *, model: Path | None, codec: Path | None, figures: Mapping[str, Any] | None
) -> None:
    """Write configs and tokenizer of `template`, weights of the checkpoints (or the template's where None), and the
    card. Raises WeightsError for a checkpoint of other sizes, ValueError for a folder that would be too big."""
    out.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        if (template / name).exists():
            shutil.copy(template / name, out / name)
    model_tensors, model_facts = _weights(model, template / "model.safetensors", prefix="")
    codec_tensors, codec_facts = _weights(codec, template / "codec.safetensors", prefix="model.")
    if "config" in codec_facts:
        (out / "codec.json").write_text(json.dumps(codec_facts["config"], indent=1) + "\n")
    check(model_tensors, expected_shapes(ModelConfig.read(out)), str(model or template))
    with torch.device("meta"):
        shapes = {n: tuple(t.shape) for n, t in CodecModel(CodecConfig.read(out)).state_dict().items()}
    check(codec_tensors, shapes, str(codec or template))
    save_file({n: t.half().contiguous() for n, t in model_tensors.items()}, str(out / "model.safetensors"))
    save_file({n: t.half().contiguous() for n, t in codec_tensors.items()}, str(out / "codec.safetensors"))
    (out / "README.md").write_text(_card(out, model_facts, codec_facts, figures))
    load_model(out), Codec.load(out)  # what was written can be served
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    if size > MAX_BYTES:
        raise ValueError(f"{out} has {size / 1e6:.1f} MB, at most {MAX_BYTES / 1e6:.0f}")


def _weights(checkpoint: Path | None, default: Path, *, prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if checkpoint is None:
        return load_file(str(default)), {}
    tensors, facts = load_checkpoint(checkpoint)
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}, facts


def export_voice(model: Path, clips: Path, voice: str, key: str) -> None:
    """Make one of the teacher's clips the reference of a voice: codes and transcript under `voices/NAME`."""
    (clip,) = [clip for clip in read_clips(clips) if clip.voice == voice and clip.key == key]
    codec = Codec.load(model)
    samples, rate_hz = soundfile.read(clips / clip.file, dtype="float32")
    home = model / "voices" / voice
    home.mkdir(parents=True, exist_ok=True)
    np.save(home / "codes.npy", codec.encode(soxr.resample(samples, rate_hz, codec.config.sample_rate)))
    (home / "transcript.txt").write_text(clip.spoken + "\n")


def _card(
    folder: Path, model_facts: Mapping[str, Any], codec_facts: Mapping[str, Any], figures: Mapping[str, Any] | None
) -> str:
    """Markdown: what it is, how it was made, what was measured."""
    lines = [f"# {folder.name}", "", "A small voice in the Fish S2 format. Made by `python -m engine.training`.", ""]
    lines += ["## Licences", "", *(f"* {what}: {licence}" for what, licence in LICENCES.items()), ""]
    lines += ["## Voices", "", *(f"* {name}: `{style}`" for name, style in NAMED_VOICES.items()), ""]
    for title, facts in (("Model", model_facts), ("Codec", codec_facts)):
        lines += [f"## {title}", ""]
        if not facts:
            lines += ["Unchanged from the model it was exported with.", ""]
            continue
        lines += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts["stretch"].items())]
        lines += [f"| steps | {facts['steps']} |", f"| last losses | {json.dumps(facts['log'][-1:])} |", ""]
    lines += ["## Figures", ""]
    if figures is None:
        lines += ["Not measured yet: `python -m engine.training evaluate`.", ""]
    else:
        lines += ["| | |", "|---|---|", *(f"| {name} | {_shown(value)} |" for name, value in figures.items()), ""]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)
