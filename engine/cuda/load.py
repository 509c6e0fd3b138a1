"""From a loaded model, or from nothing but a seed, to a CUDA backend; and what of the card's memory it takes."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from engine.backends.cuda import CudaBackend
from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.config import ConfigError, ModelConfig
from engine.cuda.codec_weights import CodecWeights
from engine.cuda.device import CudaDevice, Device
from engine.cuda.frame_kernel import Geometry, PackedWeights
from engine.cuda.random_model import IM_END, S2_PRO, SEMANTIC_BEGIN, random_codec, random_model
from engine.cuda.weights import ModelWeights
from engine.model.dual_ar import DualAR
from engine.weights import expected_shapes

__all__ = ["choose_fp8", "kv_bytes_per_token", "make_backend", "make_random_backend"]

log = logging.getLogger(__name__)

FP8_FROM_PARAMETERS = 1_000_000_000
"""Reading weights is what a big model's time goes into. A small one's is not, and it follows its greedy path less well
in FP8 (loadtest/LOG.md)."""
RESERVE_BYTES = 4 << 30
"""For activations, graphs, the codec's state and the driver."""


def choose_fp8(config: ModelConfig, precision: str) -> bool:
    """`precision`: "fp8", "bf16", or "auto": FP8 for models of a billion parameters and more."""
    if precision != "auto":
        return precision == "fp8"
    return sum(math.prod(shape) for shape in expected_shapes(config).values()) >= FP8_FROM_PARAMETERS


def kv_bytes_per_token(config: ModelConfig) -> int:
    """Keys and values of one position in all layers of the slow transformer, bf16."""
    return config.slow.layers * 2 * config.slow.kv_heads * config.slow.head_dim * 2


def _check_memory(config: ModelConfig, slots: int, context_tokens: int, device: torch.device) -> None:
    """Say what fits, or refuse. Weights are on the card already. Raises ConfigError with the numbers."""
    free, total = torch.cuda.mem_get_info(device) if device.type == "cuda" else (1 << 62, 1 << 62)
    each = kv_bytes_per_token(config) * context_tokens
    needed, available = (slots + 1) * each, free - RESERVE_BYTES
    if needed > available:
        raise ConfigError(
            f"{slots} slots of {context_tokens} tokens need {needed / 2**30:.1f} GiB for keys and values, but of the "
            f"card's {total / 2**30:.1f} GiB only {available / 2**30:.1f} are left beside the weights and a reserve of "
            f"{RESERVE_BYTES / 2**30:.0f} GiB: {max(0, available // each - 1)} slots of this size would fit"
        )
    log.info(
        "memory: %s slots of %s tokens take %.1f GiB of keys and values (%.1f MiB each); weights %.1f GiB; "
        "%.1f of %.1f GiB stay free",
        slots,
        context_tokens,
        needed / 2**30,
        each / 2**20,
        (total - free) / 2**30,
        (free - needed) / 2**30,
        total / 2**30,
    )


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


def make_backend(
    model: DualAR, codec: Codec, *, slots: int, context_tokens: int, fp8: bool, device: Device | None = None
) -> CudaBackend:
    """A backend for a checkpoint that was read in fp32. Raises ConfigError, also where the slots do not fit."""
    device = device or CudaDevice()
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
    _check_memory(model.config, slots, context_tokens, device.torch_device)
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
    _check_memory(S2_PRO, slots, context_tokens, where)
    return CudaBackend(
        device, weights, codec_weights, None, slots=slots, context_tokens=context_tokens, fp8=fp8, packed=packed
    )
