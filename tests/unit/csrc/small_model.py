"""A seeded random model and codec whose sizes the CUDA kernels take (heads of 64, channels in eights)."""

from __future__ import annotations

import torch

from engine.codec.codec import Codec, CodecModel
from engine.codec.config import CodecConfig
from engine.config import ModelConfig
from engine.cuda.codec_weights import CodecWeights
from engine.cuda.quantised import DECODE_SCHEME, quantised_form
from engine.cuda.weights import ModelWeights
from engine.model.dual_ar import DualAR
from engine.weights import expected_shapes
from tests.unit.csrc.emulated import drawn

SEMANTIC_BEGIN, IM_END, CODES = 200, 190, 64

CONFIG = ModelConfig.parse(
    {
        "model_type": "fish_qwen3_omni",
        "residual_codebook_size": 32,
        "text_config": {
            "vocab_size": 272,
            "n_layer": 2,
            "dim": 128,
            "n_head": 4,
            "n_local_heads": 2,
            "head_dim": 64,
            "intermediate_size": 192,
            "rope_base": 10000.0,
            "norm_eps": 1e-6,
            "max_seq_len": 256,
            "attention_qk_norm": True,
        },
        "audio_decoder_config": {
            "vocab_size": CODES,
            "num_codebooks": 4,
            "n_layer": 2,
            "dim": 64,
            "n_head": 2,
            "n_local_heads": 1,
            "head_dim": 64,
            "intermediate_size": 96,
            "rope_base": 10000.0,
            "norm_eps": 1e-6,
            "text_dim": 128,
        },
    }
)

CODEC_CONFIG = CodecConfig(
    sample_rate=8000,
    encoder_dim=8,
    encoder_rates=(2, 2, 2, 5),
    latent_dim=128,
    decoder_dim=128,
    decoder_rates=(5, 2, 2, 2),
    downsample_factor=(2, 2),
    encoder_transformer_layers=1,
    encoder_transformer_heads=2,
    encoder_window=8,
    transformer_layers=2,
    transformer_heads=2,
    transformer_ffn=96,
    transformer_window=4,
    n_codebooks=4,
    semantic_codebook_size=CODES,
    residual_codebook_size=32,
    codebook_dim=4,
)


def small_model(seed: int = 7) -> DualAR:
    """fp32 module whose weights are bf16 numbers, so that a bf16 backend holds the same ones."""
    random = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in expected_shapes(CONFIG).items():
        value = drawn(random, *shape)
        scale = 0.1 if name.endswith("norm.weight") else shape[-1] ** -0.5
        state[name] = (value * scale + (1.0 if name.endswith("norm.weight") else 0.0)).bfloat16().float()
    state["embeddings.weight"] *= 4.0  # sharper logits: greedy choices survive rounding
    state["fast_output.weight"] *= 4.0
    model = DualAR(CONFIG, SEMANTIC_BEGIN, IM_END)
    model.load_state_dict(state, strict=True, assign=True)
    return model.eval().requires_grad_(False)


def model_weights(model: DualAR, *, context_tokens: int, device: torch.device, fp8: bool) -> ModelWeights:
    tensors = model.state_dict()
    return ModelWeights.build(
        CONFIG,
        quantised_form(CONFIG, tensors, DECODE_SCHEME) if fp8 else tensors,
        semantic_begin=SEMANTIC_BEGIN,
        im_end=IM_END,
        context_tokens=context_tokens,
        device=device,
    )


def small_codec(seed: int = 8) -> Codec:
    random = torch.Generator().manual_seed(seed)
    model = CodecModel(CODEC_CONFIG)
    for name, tensor in model.state_dict().items():
        fan_in = max(1, tensor[0].numel()) if tensor.ndim > 1 else 1
        value = drawn(random, *tensor.shape) * (0.7 / fan_in**0.5 if tensor.ndim > 1 else 0.05)
        if name.endswith(("alpha", "gamma")) or "norm.weight" in name:
            value = 0.5 + value.abs()
        tensor.copy_(value.half().float())
    return Codec(CODEC_CONFIG, model)


def codec_weights(codec: Codec, device: torch.device) -> CodecWeights:
    return CodecWeights.build(CODEC_CONFIG, codec.state_dict(), device)
