"""From a loaded model, or from nothing but a seed, to a CUDA backend."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.backends.cuda import CudaBackend
from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.config import ModelConfig
from engine.cuda.codec_weights import CodecWeights
from engine.cuda.device import CudaDevice
from engine.cuda.frame_kernel import Geometry, PackedWeights
from engine.cuda.random_model import IM_END, S2_PRO, SEMANTIC_BEGIN, random_codec, random_model
from engine.cuda.weights import ModelWeights
from engine.model.dual_ar import DualAR

__all__ = ["make_backend", "make_random_backend"]


def _pack(
    config: ModelConfig, tensors: Mapping[str, Tensor], device: torch.device, semantic_begin: int, im_end: int
) -> tuple[Geometry, PackedWeights] | None:
    """Weights of the persistent frame kernel, for a model that it can run."""
    geometry = Geometry(config)
    if not geometry.fits():
        return None
    return geometry, PackedWeights.build(
        geometry, lambda name: tensors[name].to(device), semantic_begin=semantic_begin, im_end=im_end
    )


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
    ids = (model.semantic_begin, model.im_end)
    packed = _pack(model.config, model.state_dict(), device.torch_device, *ids) if fp8 else None
    return CudaBackend(
        device, weights, codec_weights, codec, slots=slots, context_tokens=context_tokens, fp8=fp8, packed=packed
    )


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
    packed = _pack(S2_PRO, random_model(S2_PRO, where, seed), where, SEMANTIC_BEGIN, IM_END) if fp8 else None
    torch.cuda.empty_cache()
    return CudaBackend(
        device, weights, codec_weights, None, slots=slots, context_tokens=context_tokens, fp8=fp8, packed=packed
    )
