"""From a loaded model, or from nothing but a seed, to a CUDA backend."""

from __future__ import annotations

import torch

from engine.backends.cuda import CudaBackend
from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.cuda.codec_weights import CodecWeights
from engine.cuda.device import CudaDevice
from engine.cuda.random_model import IM_END, S2_PRO, SEMANTIC_BEGIN, random_codec, random_model
from engine.cuda.weights import ModelWeights
from engine.model.dual_ar import DualAR

__all__ = ["make_backend", "make_random_backend"]


def make_backend(model: DualAR, codec: Codec, *, slots: int, context_tokens: int, fp8: bool) -> CudaBackend:
    """A backend for a checkpoint that was read in fp32. Raises ConfigError, CudaError."""
    device = CudaDevice()
    weights = ModelWeights.build(
        model.config,
        model.state_dict(),
        semantic_begin=model.semantic_begin,
        im_end=model.im_end,
        context_tokens=context_tokens,
        device=device.torch_device,
        fp8=fp8,
    )
    codec_weights = CodecWeights.build(codec.config, codec.state_dict(), device.torch_device)
    return CudaBackend(device, weights, codec_weights, codec, slots=slots, context_tokens=context_tokens, fp8=fp8)


def make_random_backend(*, slots: int, context_tokens: int, fp8: bool, seed: int = 0) -> CudaBackend:
    """`s2-pro-random`: full size, random weights, no encoder."""
    device = CudaDevice()
    where, codec_config = device.torch_device, CodecConfig.s2()
    weights = ModelWeights.build(
        S2_PRO,
        random_model(S2_PRO, where, seed),
        semantic_begin=SEMANTIC_BEGIN,
        im_end=IM_END,
        context_tokens=context_tokens,
        device=where,
        fp8=fp8,
    )
    codec_weights = CodecWeights.build(codec_config, random_codec(codec_config, where, seed), where)
    torch.cuda.empty_cache()
    return CudaBackend(device, weights, codec_weights, None, slots=slots, context_tokens=context_tokens, fp8=fp8)
