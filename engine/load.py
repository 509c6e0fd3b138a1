"""From a checkpoint folder to an engine: the composition root of this package."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.backends.base import Backend
from engine.backends.reference import ReferenceBackend
from engine.codec.codec import Codec
from engine.config import ConfigError, ModelConfig
from engine.model.dual_ar import DualAR
from engine.prompt import PromptBuilder
from engine.runner import Runner
from engine.tokenizer import Tokenizer
from engine.voices import read_voices
from engine.weights import load as load_weights

__all__ = ["BUNDLED_VOICE", "load_engine", "load_model"]

log = logging.getLogger(__name__)

BUNDLED_VOICE = Path(__file__).parent / "assets" / "voice-v0"
DEFAULT_SPEAKER = "willow"


def load_engine(folder: Path, *, backend: str = "auto", slots: int, context_tokens: int | None = None) -> Runner:
    """Read a checkpoint and build the engine. Raises ConfigError, WeightsError, TokenizerError, VoiceError.

    `backend` is "native", "reference", or "auto": native where a C++ compiler is found. `context_tokens` defaults to
    the model's own maximum.
    """
    model = load_model(folder)
    codec = Codec.load(folder)
    config = model.config
    if codec.config.n_codebooks != config.num_codebooks:
        raise ConfigError(
            f"{folder}: the codec has {codec.config.n_codebooks} codebooks, the model {config.num_codebooks}"
        )
    context = min(context_tokens or config.slow.max_seq_len, config.slow.max_seq_len)
    made = _make_backend(backend, model, codec, slots, context)
    return Runner(
        made,
        PromptBuilder(Tokenizer(folder), config.num_codebooks),
        read_voices(folder, codec.config.codebook_sizes, DEFAULT_SPEAKER),
        sample_rate_hz=codec.config.sample_rate,
        frame_samples=codec.config.hop_samples,
        codebook_sizes=codec.config.codebook_sizes,
    )


def load_model(folder: Path) -> DualAR:
    """The DualAR of a checkpoint in fp32, checked strictly."""
    config, tokenizer = ModelConfig.read(folder), Tokenizer(folder)
    if tokenizer.semantic_count != config.codebook_size:
        raise ConfigError(
            f"{folder}: the tokenizer has {tokenizer.semantic_count} semantic tokens, "
            f"audio_decoder_config.vocab_size is {config.codebook_size}"
        )
    if (highest := max(tokenizer.semantic_end, tokenizer.im_end)) >= config.slow.vocab_size:
        raise ConfigError(f"{folder}: the tokenizer's id {highest} is outside vocab_size {config.slow.vocab_size}")
    model = DualAR(config, tokenizer.semantic_begin, tokenizer.im_end)
    tensors = load_weights(folder, config)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True, assign=True)
    return model.eval().requires_grad_(False)


def _make_backend(name: str, model: DualAR, codec: Codec, slots: int, context_tokens: int) -> Backend:
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
