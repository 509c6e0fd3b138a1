"""From a checkpoint, or from nothing but a seed, to a CUDA backend; and what of the card's memory it takes."""

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
from engine.cuda.quantised import DECODE_SCHEME, quantised_form
from engine.cuda.random_model import IM_END, S2_PRO, SEMANTIC_BEGIN, random_codec, random_model
from engine.cuda.upload import Uploaded
from engine.cuda.weights import ModelWeights
from engine.quant.formats import Quantised
from engine.stored_model import StoredModel
from engine.weights import expected_shapes

__all__ = ["choose_fp8", "kv_bytes_per_token", "make_backend", "make_random_backend"]

log = logging.getLogger(__name__)

FP8_FROM_PARAMETERS = 1_000_000_000
"""Reading weights is what a big model's time goes into; a small one's is not."""
RESERVE_BYTES = 4 << 30
"""For activations, graphs, the codec's state and the driver."""


def choose_fp8(config: ModelConfig, precision: str) -> bool:
    """`precision`: "fp8", "bf16", or "auto": FP8 for FP8 checkpoints and models of a billion parameters and more."""
    if config.fp8_scheme and precision == "auto":
        return True
    if precision != "auto":
        return precision == "fp8"
    return sum(math.prod(shape) for shape in expected_shapes(config).values()) >= FP8_FROM_PARAMETERS


def kv_bytes_per_token(config: ModelConfig, *, fp8: bool = False) -> int:
    """Keys and values of one position in all layers of the slow transformer."""
    return config.slow.layers * 2 * config.slow.kv_heads * config.slow.head_dim * (1 if fp8 else 2)


def _check_memory(config: ModelConfig, slots: int, context_tokens: int, device: torch.device, *, kv_fp8: bool) -> None:
    """Say what fits, or refuse. Weights are on the card already. Raises ConfigError with the numbers."""
    free, total = torch.cuda.mem_get_info(device) if device.type == "cuda" else (1 << 62, 1 << 62)
    each = kv_bytes_per_token(config, fp8=kv_fp8) * context_tokens
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


def make_backend(
    model: StoredModel,
    codec: Codec,
    *,
    slots: int,
    context_tokens: int,
    fp8: bool,
    kv_fp8: bool = False,
    device: Device | None = None,
) -> CudaBackend:
    """A backend for a checkpoint. `fp8` quantises one that is in plain floats and is true for one in FP8. Raises
    ConfigError, also where the slots do not fit."""
    if model.config.fp8_scheme and not fp8:
        raise ConfigError(f"the checkpoint is in FP8 ({model.config.fp8_scheme}): bf16 needs the one it was made from")
    device = device or CudaDevice()
    stream = device.stream(urgent=False)
    with device.on(stream):
        tensors: Mapping[str, Tensor | Quantised] = Uploaded(model.tensors, device, stream)
        if fp8 and not model.config.fp8_scheme:
            tensors = quantised_form(model.config, tensors, DECODE_SCHEME)
        ids = {"semantic_begin": model.semantic_begin, "im_end": model.im_end}
        weights, packed = _build(device, model.config, tensors, context_tokens, **ids)
        codec_weights = CodecWeights.build(codec.config, codec.state_dict(), device.torch_device)
    device.join(device.record(stream))
    _check_memory(model.config, slots, context_tokens, device.torch_device, kv_fp8=kv_fp8)
    return CudaBackend(
        device,
        weights,
        codec_weights,
        codec,
        slots=slots,
        context_tokens=context_tokens,
        kv_fp8=kv_fp8,
        packed=packed,
    )


def make_random_backend(
    *, slots: int, context_tokens: int, fp8: bool, kv_fp8: bool = False, seed: int = 0
) -> CudaBackend:
    """`s2-pro-random`: full size, random weights, no encoder."""
    device = CudaDevice()
    where, codec_config = device.torch_device, CodecConfig.s2()
    tensors: Mapping[str, Tensor | Quantised] = random_model(S2_PRO, where, seed)
    if fp8:
        tensors = quantised_form(S2_PRO, tensors, DECODE_SCHEME)
    ids = {"semantic_begin": SEMANTIC_BEGIN, "im_end": IM_END}
    weights, packed = _build(device, S2_PRO, tensors, context_tokens, **ids)
    codec_weights = CodecWeights.build(codec_config, random_codec(codec_config, where, seed), where)
    torch.cuda.empty_cache()
    _check_memory(S2_PRO, slots, context_tokens, where, kv_fp8=kv_fp8)
    return CudaBackend(
        device,
        weights,
        codec_weights,
        None,
        slots=slots,
        context_tokens=context_tokens,
        kv_fp8=kv_fp8,
        packed=packed,
    )


def _build(
    device: Device,
    config: ModelConfig,
    tensors: Mapping[str, Tensor | Quantised],
    context_tokens: int,
    *,
    semantic_begin: int,
    im_end: int,
) -> tuple[ModelWeights, tuple[Geometry, PackedWeights] | None]:
    """The weights, and again as the persistent kernel reads them, where it can run the model."""
    weights = ModelWeights.build(
        config,
        tensors,
        semantic_begin=semantic_begin,
        im_end=im_end,
        context_tokens=context_tokens,
        device=device.torch_device,
    )
    geometry = Geometry(config)
    if not weights.has_fp8_activations or not geometry.fits():
        return weights, None
    return weights, (geometry, PackedWeights.build(geometry, tensors, semantic_begin=semantic_begin, im_end=im_end))
