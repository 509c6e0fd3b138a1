"""The corpus as codes: what the AR model is trained on, and what a stretch of training brings home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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

__all__ = ["SpokenCodes", "encode_speech", "load_codes", "save_codes"]

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


def save_codes(codes: SpokenCodes, folder: Path) -> None:
    """Like a checkpoint, but for numbers in as many bits as their greatest needs: 75 hours at 18.75 frames of 73 bits a
    second are 46 MB, and the rest 4."""
    tensors = {f"codes.{k}": _packed(row) for k, row in enumerate(codes.codes)}
    tensors["lengths"] = _packed(codes.lengths)
    tensors["lines"] = _packed(codes.lines)
    tensors["durations"] = _packed(np.concatenate(codes.durations))
    tensors["phonemes"] = _packed(np.asarray([len(steps) for steps in codes.durations]))
    save_checkpoint(folder, tensors, {"clips": len(codes.lines)}, torch.float32)


def load_codes(folder: Path) -> SpokenCodes:
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


def _packed(values: np.ndarray) -> Tensor:
    return torch.from_numpy(to_planes(values))
