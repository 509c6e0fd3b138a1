"""The corpus as codes: what the AR model is trained on, and what `codes` brings home, in parts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.codec.codec import CodecModel
from engine.codec.config import CodecConfig
from engine.training.bit_planes import from_planes, to_planes
from engine.training.checkpoint import load_checkpoint, save_checkpoint
from engine.training.speech import Speech
from engine.training.whole_clips import WholeClips

__all__ = ["SpokenCodes", "encode_speech", "load_codes", "load_part", "part_facts", "save_part"]

BATCH_FRAMES = 16_384


@dataclass(frozen=True, slots=True)
class SpokenCodes:
    codes: np.ndarray
    """int16 [K, F]: clips end to end"""
    starts: np.ndarray
    """int64 [clips]: first frame of each"""
    lengths: np.ndarray
    """int64 [clips], in frames"""
    lines: np.ndarray
    """int64 [clips]: index into the corpus"""
    durations: list[np.ndarray]
    """Of each clip: 25 ms steps of each phoneme, with the silence in front and behind"""

    def clip(self, index: int) -> np.ndarray:
        """int16 [K, frames]."""
        start = self.starts[index]
        return self.codes[:, start : start + self.lengths[index]]


@torch.inference_mode()
def encode_speech(model: CodecModel, config: CodecConfig, speech: Speech) -> SpokenCodes:
    """Clips of similar length go together; the encoder is causal, so padding behind changes nothing."""
    device = next(model.parameters()).device
    context = WholeClips.of(model)
    hop = config.hop_samples
    lengths = (speech.lengths // hop).tolist()
    made: list[np.ndarray | None] = [None] * len(lengths)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    while order:
        size = max(1, BATCH_FRAMES // max(1, lengths[order[-1]]))
        group, order = order[-size:], order[:-size]
        longest = lengths[group[-1]] * hop
        waves = [speech.samples[speech.starts[i] : speech.starts[i] + lengths[i] * hop] for i in group]
        batch = torch.stack([F.pad(wave.to(device).float() / 32767, (0, longest - len(wave))) for wave in waves])
        codes = model.encode(batch, context.begin(len(group), device)).to(torch.int16).cpu().numpy()
        for i, row in zip(group, codes, strict=True):
            made[i] = row[:, : lengths[i]]
    at = np.cumsum([0, *lengths[:-1]])
    whole = np.concatenate([codes for codes in made if codes is not None], axis=1)
    durations = [np.asarray(steps, np.int16) for steps in speech.durations]
    return SpokenCodes(whole, at, np.asarray(lengths), np.asarray(speech.lines), durations)


def save_part(codes: SpokenCodes, folder: Path, facts: dict[str, Any]) -> None:
    """Like a checkpoint, but for numbers in as many bits as their greatest needs: 75 hours at 18.75 frames of 73 bits a
    second are 46 MB, and the rest 4."""
    tensors = {f"codes.{k}": _packed(row) for k, row in enumerate(codes.codes)}
    tensors["lengths"] = _packed(codes.lengths)
    tensors["lines"] = _packed(codes.lines)
    tensors["durations"] = _packed(np.concatenate(codes.durations))
    tensors["phonemes"] = _packed(np.asarray([len(steps) for steps in codes.durations]))
    save_checkpoint(folder, tensors, {"clips": len(codes.lines), **facts}, torch.float32)


def part_facts(folder: Path) -> dict[str, Any]:
    """Raises FileNotFoundError where there is no part."""
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return facts


def load_part(folder: Path) -> SpokenCodes:
    """Raises FileNotFoundError."""
    tensors, facts = load_checkpoint(folder)

    def unpacked(name: str, count: int) -> np.ndarray:
        return from_planes(tensors[name].numpy(), count)

    clips = facts["clips"]
    lengths, lines = (unpacked(name, clips).astype(np.int64) for name in ("lengths", "lines"))
    ends, edges = np.cumsum(lengths), np.cumsum(unpacked("phonemes", clips))
    rows = range(sum(name.startswith("codes.") for name in tensors))
    codes = np.stack([unpacked(f"codes.{k}", ends[-1]).astype(np.int16) for k in rows])
    durations = np.split(unpacked("durations", edges[-1]).astype(np.int16), edges[:-1])
    return SpokenCodes(codes, ends - lengths, lengths, lines, durations)


def load_codes(folder: Path) -> SpokenCodes:
    """All parts in the folder as one, in the order of their names.

    Raises FileNotFoundError where there is none, ValueError where two are of different codecs or of the same line.
    """
    folders = sorted(folder.glob("part-*"))
    if not folders:
        raise FileNotFoundError(f"{folder} has no part of a corpus")
    if len({part_facts(part)["codec"] for part in folders}) > 1:
        raise ValueError(f"the parts in {folder} are of different codecs")
    parts = [load_part(part) for part in folders]
    lengths, lines = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "lines"))
    if len(np.unique(lines)) < len(lines):
        raise ValueError(f"two parts in {folder} are of the same line")
    durations = [steps for part in parts for steps in part.durations]
    codes = np.concatenate([part.codes for part in parts], axis=1)
    return SpokenCodes(codes, np.cumsum(lengths) - lengths, lengths, lines, durations)


def _packed(values: np.ndarray) -> Tensor:
    return torch.from_numpy(to_planes(values))
