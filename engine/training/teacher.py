"""The teacher: Kokoro-82M in PyTorch, batched without padding, with the alignment of every clip.

Module classes come from the `kokoro` package (Apache-2.0), weights from `teacher_weights`. Utterances are batched by
equal token count for the prosody and by equal frame count for the decoder: its instance norms run over the whole clip,
so padding would change the sound.
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import remove_weight_norm

from engine.training.teacher_weights import PackedTensor

__all__ = ["SAMPLES_PER_STEP", "SAMPLE_RATE_HZ", "Clip", "Line", "Teacher", "load_teacher", "pack_teacher"]

SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_STEP = 600
"""Of one duration step (25 ms)."""
STYLE_DIM = 128
MAX_TOKENS = 510
COARSENESS = 1 / 3
SMALL = 4096
"""Tensors of no more values stay in half precision."""
STYLE_STRIDE = 8
"""Style rows move slowly with clip length: every eighth is kept, the others are interpolated."""


@dataclass(frozen=True, slots=True)
class Line:
    """One utterance to be spoken."""

    key: int
    phonemes: str
    style: str
    """`name` or `name:weight+name:weight`."""
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Clip:
    key: int
    audio: torch.Tensor
    """float32 [N] at 24 kHz, on the device."""
    durations: list[int]
    """Steps of 25 ms for each phoneme, with the silent ends: one more in front and one behind."""


class Teacher(nn.Module):
    def __init__(self, vocabulary: dict[str, int], styles: dict[str, torch.Tensor]) -> None:
        """`styles`: name → fp32 [rows, 256], row = token count - 1 over STYLE_STRIDE."""
        super().__init__()
        Decoder, CustomAlbert, ProsodyPredictor, TextEncoder = _kokoro_modules()
        from transformers import AlbertConfig

        self.vocabulary, self.styles = vocabulary, styles
        bert = AlbertConfig(
            vocab_size=178,
            hidden_size=768,
            num_attention_heads=12,
            intermediate_size=2048,
            max_position_embeddings=512,
            num_hidden_layers=12,
        )
        self.bert = CustomAlbert(bert)
        self.bert_encoder = nn.Linear(768, 512)
        self.predictor = ProsodyPredictor(style_dim=STYLE_DIM, d_hid=512, nlayers=3, max_dur=50, dropout=0.2)
        self.text_encoder = TextEncoder(channels=512, kernel_size=5, depth=3, n_symbols=178)
        self.decoder = Decoder(
            dim_in=512,
            style_dim=STYLE_DIM,
            dim_out=80,
            upsample_kernel_sizes=[20, 12],
            upsample_rates=[10, 6],
            gen_istft_hop_size=5,
            gen_istft_n_fft=20,
            resblock_dilation_sizes=[[1, 3, 5]] * 3,
            resblock_kernel_sizes=[3, 7, 11],
            upsample_initial_channel=512,
        )
        for module in self.modules():
            if hasattr(module, "weight_g"):
                remove_weight_norm(module)

    def tokens(self, phonemes: str) -> list[int]:
        return [0, *(self.vocabulary[p] for p in phonemes if p in self.vocabulary), 0]

    def style(self, name: str, tokens: int) -> torch.Tensor:
        """fp32 [256]; blends are weighted means."""
        total: torch.Tensor | None = None
        parts = [part.split(":") for part in name.split("+")]
        weights = [float(part[1]) if len(part) > 1 else 1.0 for part in parts]
        for (style, *_), weight in zip(parts, weights, strict=True):
            rows = self.styles[style]
            at = min((tokens - 3) / STYLE_STRIDE, len(rows) - 1.001)
            low = int(at)
            row = torch.lerp(rows[low], rows[low + 1], at - low) * (weight / sum(weights))
            total = row if total is None else total + row
        assert total is not None, "a style has a name"
        return total

    @torch.inference_mode()
    def speak(self, lines: list[Line], batch_tokens: int = 32_768, batch_steps: int = 16_384) -> Iterator[Clip]:
        """All lines, in any order. `batch_*` bound the memory of one call."""
        planned = [item for group in self._by_tokens(lines, batch_tokens) for item in self._plan(group)]
        groups: dict[int, list[_Planned]] = defaultdict(list)
        for item in planned:
            groups[int(item.durations.sum())].append(item)
        for steps, group in sorted(groups.items()):
            size = max(1, batch_steps // steps)
            for at in range(0, len(group), size):
                yield from self._render(group[at : at + size])

    def _by_tokens(self, lines: list[Line], batch_tokens: int) -> Iterator[list[tuple[Line, list[int]]]]:
        groups: dict[int, list[tuple[Line, list[int]]]] = defaultdict(list)
        for line in lines:
            tokens = self.tokens(line.phonemes)
            if 4 <= len(tokens) <= MAX_TOKENS:
                groups[len(tokens)].append((line, tokens))
        for length, group in sorted(groups.items()):
            size = max(1, batch_tokens // length)
            yield from (group[at : at + size] for at in range(0, len(group), size))

    def _plan(self, group: list[tuple[Line, list[int]]]) -> list[_Planned]:
        """Durations and features of utterances with equally many tokens."""
        device = self.bert_encoder.weight.device
        ids = torch.tensor([tokens for _, tokens in group], device=device)
        style = torch.stack([self.style(line.style, ids.shape[1]) for line, _ in group]).to(device)
        speed = torch.tensor([line.speed for line, _ in group], device=device)
        lengths = torch.full((len(group),), ids.shape[1], dtype=torch.long)
        no_padding = torch.zeros(ids.shape, dtype=torch.bool, device=device)
        hidden = self.bert_encoder(self.bert(ids, attention_mask=torch.ones_like(ids))).transpose(-1, -2)
        prosody = self.predictor.text_encoder(hidden, style[:, STYLE_DIM:], lengths, no_padding)
        steps, _ = self.predictor.lstm(prosody)
        seconds = torch.sigmoid(self.predictor.duration_proj(steps)).sum(-1) / speed[:, None]
        durations = seconds.round().clamp(min=1).long().cpu()
        text = self.text_encoder(ids, lengths.to(device), no_padding)
        return [
            _Planned(line, durations[i], prosody[i].half(), text[i].half(), style[i])
            for i, (line, _) in enumerate(group)
        ]

    def _render(self, group: list[_Planned]) -> Iterator[Clip]:
        """Sound of utterances with equally many steps."""
        device = self.bert_encoder.weight.device
        expand = [torch.repeat_interleave(torch.arange(len(p.durations)), p.durations).to(device) for p in group]
        prosody = torch.stack([p.prosody[at].T for p, at in zip(group, expand, strict=True)]).float()
        text = torch.stack([p.text[:, at] for p, at in zip(group, expand, strict=True)]).float()
        style = torch.stack([p.style for p in group])
        pitch, energy = self.predictor.F0Ntrain(prosody, style[:, STYLE_DIM:])
        audio = self.decoder(text, pitch, energy, style[:, :STYLE_DIM])[:, 0]
        for planned, wave in zip(group, audio, strict=True):
            yield Clip(planned.line.key, wave, planned.durations.tolist())


@dataclass(frozen=True, slots=True)
class _Planned:
    line: Line
    durations: torch.Tensor
    prosody: torch.Tensor
    """fp16 [T, 640]"""
    text: torch.Tensor
    """fp16 [512, T]"""
    style: torch.Tensor


def _kokoro_modules() -> tuple[Any, ...]:
    """The package's own `__init__` imports its reader of text and a hub client; neither is needed."""
    import importlib.util

    if "kokoro" not in sys.modules:
        spec = importlib.util.find_spec("kokoro")
        assert spec is not None, "the package kokoro is installed"
        assert spec.submodule_search_locations, "kokoro is a package"
        package = types.ModuleType("kokoro")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["kokoro"] = package
    from kokoro.istftnet import Decoder
    from kokoro.modules import CustomAlbert, ProsodyPredictor, TextEncoder

    return Decoder, CustomAlbert, ProsodyPredictor, TextEncoder


def pack_teacher(
    weights: dict[str, PackedTensor], styles: dict[str, np.ndarray], vocabulary: dict[str, int], path: Path
) -> None:
    """Everything the teacher needs in one small file (37 MiB). `styles`: name → [510, 256].

    Matrices are rounded again, to steps of a third of their row's RMS: 3.6 bits a weight once compressed, where the
    int8 of the package takes 5.3.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, tensor in weights.items():
        dense = tensor.dense()
        if dense.ndim >= 2 and dense.size > SMALL:
            rms = np.sqrt(np.square(dense).mean(axis=tuple(range(1, dense.ndim)), keepdims=True)) + 1e-12
            scale = rms * COARSENESS
            arrays[f"w/{name}"] = np.round(dense / scale).clip(-127, 127).astype(np.int8)
            arrays[f"s/{name}"] = scale.astype(np.float32)
        else:
            arrays[f"w/{name}"] = dense.astype(np.float16)
    for name, rows in styles.items():
        arrays[f"style/{name}"] = rows[::STYLE_STRIDE].astype(np.float16)
    arrays["vocabulary"] = np.frombuffer(json.dumps(vocabulary).encode(), np.uint8)
    plain = io.BytesIO()
    np.savez(plain, **arrays)
    path.write_bytes(
        lzma.compress(plain.getvalue(), filters=[{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "pb": 0}])
    )


def load_teacher(path: Path, device: torch.device | str) -> Teacher:
    arrays = np.load(io.BytesIO(lzma.decompress(path.read_bytes())))
    names = set(arrays.files)
    styles = {n.removeprefix("style/"): torch.from_numpy(arrays[n]).float() for n in names if n.startswith("style/")}
    teacher = Teacher(json.loads(arrays["vocabulary"].tobytes()), styles)
    state = teacher.state_dict()
    for name in (n.removeprefix("w/") for n in names if n.startswith("w/")):
        packed = PackedTensor(arrays[f"w/{name}"], scale=arrays[f"s/{name}"] if f"s/{name}" in names else None)
        if name in state:
            state[name] = torch.from_numpy(packed.dense())
    teacher.load_state_dict(state)
    return teacher.eval().to(device)
