"""From a checkpoint folder to an engine: the composition root of this package."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from engine.api import Voice
from engine.backends.base import Backend
from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.config import ConfigError
from engine.model.dual_ar import DualAR
from engine.prompt import PromptBuilder
from engine.runner import Runner
from engine.stored_model import StoredModel, open_model
from engine.tokenizer import Tokenizer
from engine.voices import read_voices

__all__ = ["BUNDLED_VOICE", "load_engine", "load_model", "load_random_engine", "make_runner"]

log = logging.getLogger(__name__)

BUNDLED_VOICE = Path(__file__).parent / "assets" / "voice-v0"
DEFAULT_SPEAKER = "willow"

CUDA_CONTEXT_TOKENS = 2048
"""Of a slot on a GPU, unless told otherwise: a long reference, three turns and a minute of speech. The family's own
maximum would take gigabytes for each slot."""


def load_engine(
    folder: Path,
    *,
    device: str = "cpu",
    backend: str = "auto",
    precision: str = "auto",
    kv_cache: str = "bf16",
    slots: int,
    context_tokens: int | None = None,
) -> Runner:
    """Read a checkpoint and build the engine. Raises ConfigError, WeightsError, TokenizerError, VoiceError.

    On the CPU `backend` is "native", "reference", or "auto": native where a C++ compiler is found. On "cuda"
    `precision` is "fp8", "bf16", or "auto": FP8 for big models; `kv_cache` is "bf16" or "fp8". `context_tokens`
    defaults to the model's own maximum, on a GPU to 2048.
    """
    model = open_model(folder)
    codec = Codec.load(folder)
    config = model.config
    if codec.config.n_codebooks != config.num_codebooks:
        raise ConfigError(
            f"{folder}: the codec has {codec.config.n_codebooks} codebooks, the model {config.num_codebooks}"
        )
    default = CUDA_CONTEXT_TOKENS if device == "cuda" else config.slow.max_seq_len
    context = min(context_tokens or default, config.slow.max_seq_len)
    if device == "cuda":
        made = _cuda_backend(model, codec, precision, kv_cache, slots, context)
    else:
        made = _cpu_backend(backend, model.in_fp32(), codec, slots, context)
    voices = read_voices(folder, codec.config.codebook_sizes, DEFAULT_SPEAKER)
    is_latin_only = model.config.is_latin_only
    return make_runner(made, Tokenizer(folder), voices, codec.config, is_latin_only=is_latin_only)


def load_random_engine(
    *, precision: str = "auto", kv_cache: str = "bf16", slots: int, context_tokens: int | None = None
) -> Runner:
    """`s2-pro-random`: S2-Pro's sizes with seeded random weights on the GPU. It speaks noise, for speed figures.
    Raises ConfigError where there is no GPU or not enough memory."""
    _check_cuda()
    from engine.cuda.load import choose_fp8, make_random_backend
    from engine.cuda.random_model import S2_PRO, random_tokenizer, random_voices

    made = make_random_backend(
        slots=slots,
        context_tokens=context_tokens or CUDA_CONTEXT_TOKENS,
        fp8=choose_fp8(S2_PRO, precision),
        kv_fp8=kv_cache == "fp8",
    )
    codec = CodecConfig.s2()
    return make_runner(made, random_tokenizer(), random_voices(codec), codec)


def make_runner(
    backend: Backend,
    tokenizer: Tokenizer,
    voices: Mapping[str, Voice],
    codec: CodecConfig,
    *,
    is_latin_only: bool = False,
) -> Runner:
    return Runner(
        backend,
        PromptBuilder(tokenizer, codec.n_codebooks),
        voices,
        sample_rate_hz=codec.sample_rate,
        frame_samples=codec.hop_samples,
        codebook_sizes=codec.codebook_sizes,
        is_latin_only=is_latin_only,
    )


def load_model(folder: Path) -> DualAR:
    """The DualAR of a checkpoint in fp32. Raises what `open_model` raises."""
    return open_model(folder).in_fp32()


def _check_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise ConfigError("device cuda was asked for, but PyTorch sees no CUDA device here")


def _cuda_backend(
    model: StoredModel, codec: Codec, precision: str, kv_cache: str, slots: int, context_tokens: int
) -> Backend:
    _check_cuda()
    from engine.cuda.load import choose_fp8, make_backend

    fp8 = choose_fp8(model.config, precision)
    return make_backend(model, codec, slots=slots, context_tokens=context_tokens, fp8=fp8, kv_fp8=kv_cache == "fp8")


def _cpu_backend(name: str, model: DualAR, codec: Codec, slots: int, context_tokens: int) -> Backend:
    if name == "reference":
        return ReferenceBackend(model, codec, slots=slots, context_tokens=context_tokens)
    from engine.backends.native import CompilerMissing, NativeBackend  # compiles its library on first use

    try:
        return NativeBackend(model, codec, slots=slots, context_tokens=context_tokens)
    except CompilerMissing as error:
        if name == "native":
            raise
        log.warning("%s; the slow reference backend is used instead", error)
        return ReferenceBackend(model, codec, slots=slots, context_tokens=context_tokens)
