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
    """Shards of at most 14 MiB, like checkpoints."""
    tensors: dict[str, Tensor] = {f"codes.{k}": torch.from_numpy(row.copy()) for k, row in enumerate(codes.codes)}
    tensors["lengths"] = torch.from_numpy(codes.lengths.astype(np.int32))
    tensors["lines"] = torch.from_numpy(codes.lines.astype(np.int32))
    tensors["durations"] = torch.from_numpy(np.concatenate(codes.durations).astype(np.int16))
    tensors["phonemes"] = torch.tensor([len(steps) for steps in codes.durations], dtype=torch.int16)
    save_checkpoint(folder, tensors, {"clips": len(codes.lines)}, torch.float32)


def load_codes(folder: Path) -> SpokenCodes:
    """Raises FileNotFoundError."""
    tensors, _ = load_checkpoint(folder)
    codes = np.stack([tensors[f"codes.{k}"].numpy() for k in range(sum(name.startswith("codes.") for name in tensors))])
    lengths = tensors["lengths"].numpy().astype(np.int64)
    cuts = np.cumsum(tensors["phonemes"].numpy().astype(np.int64))[:-1]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    durations = np.split(tensors["durations"].numpy(), cuts)
    return SpokenCodes(codes, starts, lengths, tensors["lines"].numpy().astype(np.int64), durations)
