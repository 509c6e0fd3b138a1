"""The corpus as sound on the training device: clips trimmed, levelled and laid end to end, with their phonemes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from engine.training.corpus import CorpusLine
from engine.training.teacher import SAMPLES_PER_STEP, Line, Teacher

__all__ = ["LABEL_SAMPLES", "Speech", "synthesise"]

LEAD_STEPS, TAIL_STEPS = 2, 5
"""Silence kept in front (50 ms) and behind (125 ms); the teacher has 280 and 560 ms."""
RMS = 0.06
LABEL_SAMPLES = 640
"""One phoneme label for so many samples: half a frame."""
ALIGN_SAMPLES = 1280
"""Clips begin on frame boundaries."""


@dataclass(frozen=True, slots=True)
class Speech:
    samples: torch.Tensor
    """int16 [N]"""
    labels: torch.Tensor
    """uint8 [N / LABEL_SAMPLES]: vocabulary index of the phoneme at the middle of each label; 0 is silence"""
    starts: torch.Tensor
    """int64 [clips]: first sample of each"""
    lengths: torch.Tensor
    """int64 [clips], in samples, a multiple of ALIGN_SAMPLES"""
    lines: list[int]
    """Index into the corpus of each clip"""
    durations: list[list[int]]
    """Of each clip: 25 ms steps of each token, after trimming"""

    @property
    def hours(self) -> float:
        return len(self.samples) / 24_000 / 3600


def synthesise(teacher: Teacher, lines: Sequence[CorpusLine], *, seed: int, chunk: int = 8_000) -> Speech:
    """Speak all lines. Progress goes to stdout."""
    torch.manual_seed(seed)
    device = teacher.bert_encoder.weight.device
    samples: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    order: list[int] = []
    durations: list[list[int]] = []
    began, seconds = time.monotonic(), 0.0
    for first in range(0, len(lines), chunk):
        part = [
            Line(first + i, line.phonemes, line.style, line.speed)
            for i, line in enumerate(lines[first : first + chunk])
        ]
        for clip in teacher.speak(part):
            wave, steps = _trimmed(clip.audio, clip.durations)
            level = RMS / wave.square().mean().sqrt().clamp(min=1e-3)
            wave = F.pad(wave * level, (0, -len(wave) % ALIGN_SAMPLES)).clamp(-1, 1)
            samples.append((wave * 32767).to(torch.int16))
            labels.append(_labels(teacher.tokens(lines[clip.key].phonemes), steps, len(wave)))
            order.append(clip.key)
            durations.append(steps)
            seconds += len(wave) / 24_000
        spent = time.monotonic() - began
        print(f"spoken {seconds / 3600:.2f} h in {spent:.0f} s ({seconds / spent:.0f} x real time)", flush=True)
    lengths = torch.tensor([len(wave) for wave in samples])
    starts = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]])
    return Speech(torch.cat(samples), torch.cat(labels).to(device), starts, lengths, order, durations)


def _trimmed(wave: torch.Tensor, durations: list[int]) -> tuple[torch.Tensor, list[int]]:
    front, back = max(0, durations[0] - LEAD_STEPS), max(0, durations[-1] - TAIL_STEPS)
    end = len(wave) - back * SAMPLES_PER_STEP
    return wave[front * SAMPLES_PER_STEP : end], [durations[0] - front, *durations[1:-1], durations[-1] - back]


def _labels(tokens: list[int], steps: list[int], samples: int) -> torch.Tensor:
    by_step = torch.repeat_interleave(torch.tensor(tokens), torch.tensor(steps))
    middle = (torch.arange(samples // LABEL_SAMPLES) * LABEL_SAMPLES + LABEL_SAMPLES // 2) // SAMPLES_PER_STEP
    return F.pad(by_step, (0, max(0, int(middle[-1]) + 1 - len(by_step))))[middle].to(torch.uint8)
