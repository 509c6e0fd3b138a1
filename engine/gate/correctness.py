"""`kingfisher gate correctness`: the quantised model against the bf16 one, on fixed inputs.

* greedy decode: the first frames are equal, token for token in every codebook, but for tokens that bf16 itself leaves
  open (`engine.gate.decisions`);
* logits along the bf16 model's own path: KL divergence and top-1 agreement, per codebook;
* trained voices only: the words recognised in the sound of both.

On a GPU both precisions run on the CUDA backend. On a CPU the reference backend plays both, with weights rounded as the
device stores them, per output channel to E4M3, and inputs as it rounds them, to two terms of E4M3.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from engine.backends.base import Backend, VocodeRow
from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.config import ConfigError
from engine.gate.decisions import (
    Difference,
    ReadableBackend,
    differences,
    forced_logits,
    greedy,
    margin_noise,
    start,
)
from engine.load import load_model
from engine.model.dual_ar import DualAR
from engine.prompt import PromptBuilder
from engine.quant.formats import PER_ROW, in_two_terms, quantise
from engine.stored_model import open_model
from engine.tokenizer import Tokenizer
from engine.voices import read_voices

__all__ = ["SENTENCES", "CodebookAgreement", "Report", "compare", "round_to_fp8_"]

SENTENCES = (
    "Hello, how can I help you today?",
    "Your order will arrive on Friday between nine and twelve.",
    "Okay.",
    "I have booked a table for four people at the window.",
    "Could you please repeat the last three digits?",
    "The museum by the river is closed on public holidays.",
)
EQUAL_FRAMES = 5
PATH_FRAMES = 40
MAX_KL = 0.05
MIN_TOP1 = 0.95
MAX_WORD_DIFFERENCE = 0.10
SPOKEN_FRAMES = 200


@dataclass(frozen=True, slots=True)
class CodebookAgreement:
    codebook: int
    kl: float
    """Nats, mean over frames."""
    top1: float


@dataclass(frozen=True, slots=True)
class Report:
    followed: list[int]
    """For each sentence: frames from the start that are equal in every codebook, of PATH_FRAMES."""
    differences: list[list[Difference]]
    """For each sentence: the tokens chosen otherwise in the first EQUAL_FRAMES frames."""
    noise: float
    """The most that bf16 rounding changes the margin between two tokens in those frames: a smaller one is no choice."""
    codebooks: list[CodebookAgreement]
    word_difference: float | None
    """Word edits between both recognised texts over words; None: nobody listened."""

    def failures(self) -> list[str]:
        found = [
            f"sentence {i}, frame {d.frame}, codebook {d.codebook}: another token, though bf16 prefers its own by "
            f"{d.margin:.4f} and bf16 rounding changes margins by {self.noise:.4f} at most: {SENTENCES[i]!r}"
            for i, found in enumerate(self.differences)
            for d in found
            if abs(d.margin) > self.noise
        ]
        for row in self.codebooks:
            if row.kl > MAX_KL or row.top1 < MIN_TOP1:
                bounds = f"KL {row.kl:.4f} (at most {MAX_KL}), top-1 {row.top1:.3f} (at least {MIN_TOP1})"
                found.append(f"codebook {row.codebook}: {bounds}")
        if self.word_difference is not None and self.word_difference > MAX_WORD_DIFFERENCE:
            found.append(f"words differ by {self.word_difference:.3f}, at most {MAX_WORD_DIFFERENCE} is allowed")
        return found


def round_to_fp8_(model: DualAR) -> None:
    """Weights of the layers' products as the device stores them, and their inputs as it rounds them."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and "layers." in name:
            module.weight.data = quantise(module.weight.data, PER_ROW).dequantised()
            module.register_forward_pre_hook(
                lambda _, inputs: (in_two_terms(inputs[0].flatten(0, -2)).view(inputs[0].shape),)
            )


def _bf16(folder: Path) -> DualAR:
    model = load_model(folder)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
    return model


def _fp8(folder: Path) -> DualAR:
    model = _bf16(folder)
    round_to_fp8_(model)
    return model


@torch.inference_mode()
def compare(folder: Path, device: str, *, listens: bool, kv_fp8: bool = False) -> Report:
    """Both precisions of a checkpoint on "cpu" or "cuda". `listens` also has the words recognised, of use only for a
    voice that speaks. `kv_fp8` gives the FP8 side an FP8 KV cache too, which only "cuda" has; the agreement of logits
    is of weights and inputs alone. Raises what loading raises, and ConfigError for a checkpoint in FP8, which has no
    bf16 form, and for an FP8 KV cache on a CPU."""
    if kv_fp8 and device != "cuda":
        raise ConfigError("an FP8 KV cache needs --device cuda")
    if scheme := open_model(folder).config.fp8_scheme:
        raise ConfigError(f"{folder} is in FP8 ({scheme}): the gate compares from the checkpoint it was made from")
    tokenizer, codec = Tokenizer(folder), Codec.load(folder)
    prompts = PromptBuilder(tokenizer, codec.config.n_codebooks)
    voice = next(iter(read_voices(folder, codec.config.codebook_sizes, "willow").values()))
    columns = [np.concatenate([prompts.prefix(voice), prompts.turn(text)], axis=1) for text in SENTENCES]
    pair = [_make(folder, codec, device, fp8=fp8, kv_fp8=fp8 and kv_fp8) for fp8 in (False, True)]
    codes = [[greedy(backend, prompt, PATH_FRAMES) for prompt in columns] for backend in pair]
    followed = [_equal_frames(a, b) for a, b in zip(*codes, strict=True)]
    found, noise = _decisions(pair[1], _bf16(folder), columns, [path[:, :EQUAL_FRAMES] for path in codes[0]])
    agreement = _agreement(folder, columns, codes[0])
    words = None
    if listens:
        words = _word_difference([[_spoken(backend, prompt, codec) for prompt in columns] for backend in pair], codec)
    return Report(followed, found, noise, agreement, words)


def _decisions(
    backend: ReadableBackend, model: DualAR, prompts: list[np.ndarray], paths: list[np.ndarray]
) -> tuple[list[list[Difference]], float]:
    found, noise = [], 0.0
    for prompt, path in zip(prompts, paths, strict=True):
        logits = forced_logits(model, prompt, path)
        found.append(differences(backend, prompt, path, logits, model.semantic_begin))
        noise = max(noise, margin_noise(model, prompt, path, logits))
    return found, noise


def _make(folder: Path, codec: Codec, device: str, *, fp8: bool, kv_fp8: bool) -> ReadableBackend:
    context = 1024
    if device == "cuda":
        from engine.cuda.load import make_backend

        return make_backend(open_model(folder), codec, slots=1, context_tokens=context, fp8=fp8, kv_fp8=kv_fp8)
    model = _fp8(folder) if fp8 else _bf16(folder)
    return ReferenceBackend(model, codec, slots=1, context_tokens=context)


def _spoken(backend: Backend, prompt: np.ndarray, codec: Codec) -> np.ndarray:
    """int16 samples of the whole sentence."""
    start(backend, prompt)
    sound = []
    for frame in range(SPOKEN_FRAMES):
        result = backend.collect(backend.submit([0], [VocodeRow(0, frame, 1, frame == 0)]))
        if result.ended[0]:
            break
        sound.append(result.pcm[0])
    return np.concatenate(sound) if sound else np.zeros(codec.config.hop_samples, np.int16)


def _equal_frames(a: np.ndarray, b: np.ndarray) -> int:
    frames = min(a.shape[1], b.shape[1])
    equal = (a[:, :frames] == b[:, :frames]).all(axis=0)
    if equal.all():
        return PATH_FRAMES if a.shape == b.shape else frames
    return int(np.argmin(equal))


def _agreement(folder: Path, prompts: list[np.ndarray], paths: list[np.ndarray]) -> list[CodebookAgreement]:
    """Teacher-forced along the bf16 model's greedy path, in fp32 arithmetic on rounded weights."""
    models = _bf16(folder), _fp8(folder)
    codebooks = models[0].config.num_codebooks
    kl: list[list[Tensor]] = [[] for _ in range(codebooks)]
    top: list[list[Tensor]] = [[] for _ in range(codebooks)]
    for prompt, path in zip(prompts, paths, strict=True):
        if not path.shape[1]:
            continue
        for k, (exact, rounded) in enumerate(zip(*(forced_logits(m, prompt, path) for m in models), strict=True)):
            p, q = exact.log_softmax(-1), rounded.log_softmax(-1)
            kl[k].append((p.exp() * (p - q)).sum(-1))
            top[k].append((exact.argmax(-1) == rounded.argmax(-1)).float())
    return [
        CodebookAgreement(k, float(torch.cat(kl[k]).mean()), float(torch.cat(top[k]).mean())) for k in range(codebooks)
    ]


def _word_difference(sounds: list[list[np.ndarray]], codec: Codec) -> float | None:
    if find_spec("soxr") is None or find_spec("num2words") is None:
        return None
    from engine.hearing import Recogniser, at_hearing_rate, has_recogniser, word_errors

    if not has_recogniser():
        return None
    recogniser, rate_hz = Recogniser("base"), codec.config.sample_rate
    edits = words = 0
    for pair in zip(*sounds, strict=True):
        wide, narrow = (recogniser.hear(at_hearing_rate(pcm.astype(np.float32) / 32768, rate_hz)) for pcm in pair)
        found, count = word_errors(wide, narrow)
        edits, words = edits + found, words + max(count, 1)
    return edits / words
