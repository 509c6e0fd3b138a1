"""From a checkpoint folder to an engine: the composition root of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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

__all__ = ["BUNDLED_VOICE", "BackendName", "load_engine", "load_model"]

BUNDLED_VOICE = Path(__file__).parent / "assets" / "voice-v0"
DEFAULT_SPEAKER = "willow"

BackendName = Literal["native", "reference"]


def load_engine(
    folder: Path, *, backend: BackendName, slots: int, context_tokens: int | None = None
) -> Runner:
    """Read a checkpoint and build the engine. Raises ConfigError, WeightsError, TokenizerError, VoiceError.

    `context_tokens` defaults to the model's own maximum.
    """
    model = load_model(folder)
    codec = Codec.load(folder)
    config = model.config
    if codec.config.n_codebooks != config.num_codebooks:
        raise ConfigError(
            f"{folder}: the codec has {codec.config.n_codebooks} codebooks, the model {config.num_codebooks}"
        )
    context = min(context_tokens or config.slow.max_seq_len, config.slow.max_seq_len)
    made: Backend
    if backend == "native":
        from engine.backends.native import NativeBackend  # compiles on first use

        made = NativeBackend(model, codec, slots=slots, context_tokens=context)
    else:
        made = ReferenceBackend(model, codec, slots=slots, context_tokens=context)
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
    model = DualAR(config, tokenizer.semantic_begin, tokenizer.im_end)
    tensors = load_weights(folder, config)
    model.load_state_dict(
        {name: tensor.float() for name, tensor in tensors.items()}, strict=True, assign=True
    )
    return model.eval().requires_grad_(False)
