"""`s2-pro-random`: the full-size model and codec with seeded random weights, made on the device tensor by tensor.

For speed and memory figures where the real checkpoint is not at hand. It speaks noise.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from tokenizers import Tokenizer as HfTokenizer
from tokenizers import models, pre_tokenizers
from torch import Tensor

from engine.api import Voice
from engine.codec.codec import CodecModel
from engine.codec.config import CodecConfig
from engine.config import ModelConfig
from engine.tokenizer import Tokenizer
from engine.voices import make_voice
from engine.weights import Shape, expected_shapes

__all__ = [
    "IM_END",
    "S2_PRO",
    "S2_PRO_CONFIG",
    "SEMANTIC_BEGIN",
    "RandomTensors",
    "random_codec",
    "random_model",
    "random_tokenizer",
    "random_voices",
    "write_random_tokenizer",
]

REFERENCE_S = 10.0
"""Length of the random voices' reference clips: what users bring is 10 to 30 s."""
RANDOM_VOICES = 4

SEMANTIC_BEGIN, IM_END = 151_678, 151_645

_STACK = {
    "dim": 2560,
    "n_head": 32,
    "n_local_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "rope_base": 1e6,
    "norm_eps": 1e-6,
}

S2_PRO_CONFIG = {
    "model_type": "fish_qwen3_omni",
    "residual_codebook_size": 1024,
    "text_config": {
        **_STACK,
        "vocab_size": 155_776,
        "n_layer": 36,
        "max_seq_len": 32_768,
        "attention_qk_norm": True,
    },
    "audio_decoder_config": {
        **_STACK,
        "vocab_size": 4096,
        "n_layer": 4,
        "num_codebooks": 10,
        "max_seq_len": 11,
        "text_dim": 2560,
    },
}
"""The sizes of S2-Pro (S2 page, section 1), as its config.json has them."""
S2_PRO = ModelConfig.parse(S2_PRO_CONFIG)


class RandomTensors(Mapping[str, Tensor]):
    """Tensors by name, drawn when asked for and not kept: the same for the same seed, whatever the order."""

    def __init__(self, shapes: Mapping[str, Shape], device: torch.device, seed: int) -> None:
        self._shapes, self._device, self._seed = shapes, device, seed

    def __getitem__(self, name: str) -> Tensor:
        shape = self._shapes[name]
        generator = torch.Generator(self._device).manual_seed(self._seed + zlib.crc32(name.encode()))
        value = torch.randn(shape, generator=generator, device=self._device)
        if name.endswith(("alpha", "gamma")):
            return value.abs() * 0.1 + 0.5
        if "norm.weight" in name:
            return 1 + 0.1 * value
        if name.endswith("bias"):
            return value * 0.05
        fan_in = value[0].numel() if value.ndim > 1 else 1
        return value * (0.7 if value.ndim == 3 else 1.0) / fan_in**0.5

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def random_model(config: ModelConfig, device: torch.device, seed: int = 0) -> RandomTensors:
    return RandomTensors(expected_shapes(config), device, seed)


def random_codec(config: CodecConfig, device: torch.device, seed: int = 0) -> RandomTensors:
    with torch.device("meta"):
        shapes = {name: tuple(t.shape) for name, t in CodecModel(config).state_dict().items()}
    return RandomTensors(shapes, device, seed)


def random_tokenizer() -> Tokenizer:
    """What `write_random_tokenizer` writes."""
    with TemporaryDirectory() as folder:
        write_random_tokenizer(Path(folder))
        return Tokenizer(Path(folder))


def write_random_tokenizer(folder: Path) -> None:
    """Control and semantic tokens at S2-Pro's ids; text as bytes, since the real merges are not at hand either. So a
    prompt has some four times as many text tokens as it would have."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {char: i for i, char in enumerate(alphabet)}
    ids |= {"<|im_start|>": IM_END - 1, "<|im_end|>": IM_END, "<|voice|>": 151_673}
    ids |= {f"<|semantic:{i}|>": SEMANTIC_BEGIN + i for i in range(S2_PRO.codebook_size)}
    made = HfTokenizer(models.BPE(vocab=ids, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.add_special_tokens([name for name in ids if name.startswith("<|")])
    made.save(str(folder / "tokenizer.json"))


def random_voices(codec: CodecConfig, seed: int = 0) -> dict[str, Voice]:
    """Voices of random codes, as long as real references."""
    random = np.random.default_rng(seed)
    frames = round(REFERENCE_S * codec.sample_rate / codec.hop_samples)
    transcript = (
        "Ten seconds of speech hold about thirty words, so this is how long a transcript tends to be when it is right."
    )
    voices = {}
    for number in range(RANDOM_VOICES):
        codes = np.stack([random.integers(0, size, frames) for size in codec.codebook_sizes])
        name = f"random-{number}"
        voices[name] = make_voice(name, transcript, codes, codec.codebook_sizes)
    return voices
