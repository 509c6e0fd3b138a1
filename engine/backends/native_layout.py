"""The model as csrc/cpu reads it: two C structs and one flat list of fp32 tensors in the readers' order."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from engine.config import StackConfig
from engine.model.dual_ar import DualAR
from engine.model.layers import rope_table

__all__ = ["CCodec", "CModel", "CTensor", "codec_struct", "list_tensors", "model_struct"]

Int = ctypes.c_int32


class CTensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("count", ctypes.c_int64))


class CStack(ctypes.Structure):
    _fields_ = (
        *((name, Int) for name in ("layers", "dim", "heads", "kv_heads", "head_dim", "ffn_dim", "context", "qk_norm")),
        ("norm_eps", ctypes.c_float),
    )


class CModel(ctypes.Structure):
    _fields_ = (
        ("slow", CStack),
        ("fast", CStack),
        *(
            (name, Int)
            for name in (
                "slots",
                "vocab_size",
                "codebooks",
                "codebook_size",
                "residual_size",
                "semantic_begin",
                "scale_embeddings",
                "norm_fast_input",
                "has_project_in",
                "pending_frames",
                "alignment_layer",
                "alignment_head",
            )
        ),
    )


class CCodec(ctypes.Structure):
    _fields_ = (
        *((n, Int) for n in ("latent", "width", "codebooks", "layers", "heads", "ffn", "window", "rates", "upsamples")),
        ("rate", Int * 8),
        ("upsample", Int * 8),
        ("codebook_size", Int * 32),
        ("rope_base", ctypes.c_float),
        ("norm_eps", ctypes.c_float),
    )


def _stack(config: StackConfig, context: int) -> CStack:
    return CStack(
        config.layers,
        config.dim,
        config.heads,
        config.kv_heads,
        config.head_dim,
        config.ffn_dim,
        context,
        config.qk_norm,
        config.norm_eps,
    )


def model_struct(model: DualAR, slots: int, context_tokens: int, pending_frames: int) -> CModel:
    c = model.config
    return CModel(
        _stack(c.slow, context_tokens),
        _stack(c.fast, c.num_codebooks),
        slots,
        c.slow.vocab_size,
        c.num_codebooks,
        c.codebook_size,
        c.residual_codebook_size,
        model.semantic_begin,
        c.scale_codebook_embeddings,
        c.norm_fastlayer_input,
        c.has_project_in,
        pending_frames,
        -1 if c.alignment is None else c.alignment.layer,
        0 if c.alignment is None else c.alignment.head,
    )


def codec_struct(c: CodecConfig) -> CCodec:
    return CCodec(
        c.latent_dim,
        c.decoder_dim,
        c.n_codebooks,
        c.transformer_layers,
        c.transformer_heads,
        c.transformer_ffn,
        c.transformer_window,
        len(c.decoder_rates),
        len(c.downsample_factor),
        (Int * 8)(*c.decoder_rates),
        (Int * 8)(*reversed(c.downsample_factor)),
        (Int * 32)(*c.codebook_sizes),
        c.rope_base,
        c.norm_eps,
    )


def list_tensors(model: DualAR, codec: Codec, context_tokens: int) -> list[Tensor]:
    """fp32, contiguous, in the order in which the C++ classes take them."""
    state = dict(model.state_dict())
    c = model.config
    head = state["embeddings.weight"] if c.tie_word_embeddings else state["output.weight"]
    rows = torch.cat([head[model.semantic_begin : model.semantic_end + 1], head[model.im_end, None]])
    tensors = [state["embeddings.weight"], state["codebook_embeddings.weight"]]
    tensors += _stack_tensors(state, "layers", c.slow, context_tokens, bf16=c.rope_table_bf16)
    tensors += [state["norm.weight"], rows]
    if c.has_project_in:
        tensors += [state["fast_project_in.weight"], state["fast_project_in.bias"]]
    tensors.append(state["fast_embeddings.weight"])
    tensors += _stack_tensors(state, "fast_layers", c.fast, c.num_codebooks, bf16=c.rope_table_bf16)
    tensors += [state["fast_norm.weight"], state["fast_output.weight"][: c.residual_codebook_size]]
    tensors += _codec_tensors(codec)
    return [tensor.detach().float().contiguous() for tensor in tensors]


def _stack_tensors(
    state: dict[str, Tensor], prefix: str, config: StackConfig, context: int, *, bf16: bool
) -> list[Tensor]:
    if config.qkv_bias or config.o_bias:
        raise ValueError("the native backend has no attention biases; use the reference backend")
    tensors = [rope_table(config.head_dim, config.rope_base, context, bf16=bf16)]
    for layer in range(config.layers):
        w = {name.removeprefix(f"{prefix}.{layer}."): t for name, t in state.items() if f"{prefix}.{layer}." in name}
        tensors += [w["attention_norm.weight"], w["attention.wqkv.weight"]]
        if config.qk_norm:
            tensors += [w["attention.q_norm.weight"], w["attention.k_norm.weight"]]
        tensors += [w["attention.wo.weight"], w["ffn_norm.weight"]]
        tensors += [torch.cat([w["feed_forward.w1.weight"], w["feed_forward.w3.weight"]]), w["feed_forward.w2.weight"]]
    return tensors


def _codec_tensors(codec: Codec) -> list[Tensor]:
    config, state = codec.config, codec.state_dict()
    names = ["quantizer.semantic_quantizer.quantizers.0"]
    names += [f"quantizer.quantizer.quantizers.{k}" for k in range(config.n_codebooks - 1)]
    # A code's way into the sum is linear, so entry and projection are one table.
    tensors = [
        state[f"{n}.codebook.weight"] @ state[f"{n}.out_proj.weight"][..., 0].T + state[f"{n}.out_proj.bias"]
        for n in names
    ]
    for layer in range(config.transformer_layers):
        p = f"quantizer.post_module.layers.{layer}"
        tensors += [state[f"{p}.{n}"] for n in ("attention_norm.weight", "attention.wqkv.weight")]
        tensors += [
            state[f"{p}.{n}"] for n in ("attention.wo.weight", "attention_layer_scale.gamma", "ffn_norm.weight")
        ]
        tensors.append(torch.cat([state[f"{p}.feed_forward.w1.weight"], state[f"{p}.feed_forward.w3.weight"]]))
        tensors += [state[f"{p}.{n}"] for n in ("feed_forward.w2.weight", "ffn_layer_scale.gamma")]
    tensors.append(state["quantizer.post_module.norm.weight"])
    for stage in range(len(config.downsample_factor)):
        p = f"quantizer.upsample.{stage}"
        tensors += [state[f"{p}.0.conv.{n}"] for n in ("weight", "bias")]
        parts = ("dwconv.conv.weight", "dwconv.conv.bias", "norm.weight", "norm.bias", "pwconv1.weight")
        tensors += [state[f"{p}.1.{n}"] for n in (*parts, "pwconv1.bias", "pwconv2.weight", "pwconv2.bias", "gamma")]
    tensors += [state[f"decoder.model.0.conv.{n}"] for n in ("weight", "bias")]
    for block in range(1, len(config.decoder_rates) + 1):
        p = f"decoder.model.{block}.block"
        tensors += [state[f"{p}.0.alpha"], state[f"{p}.1.conv.weight"], state[f"{p}.1.conv.bias"]]
        for unit in (2, 3, 4):
            u = f"{p}.{unit}.block"
            tensors += [state[f"{u}.0.alpha"], state[f"{u}.1.conv.weight"], state[f"{u}.1.conv.bias"]]
            tensors += [state[f"{u}.2.alpha"], state[f"{u}.3.conv.weight"], state[f"{u}.3.conv.bias"]]
    last = len(config.decoder_rates) + 1
    tensors += [state[f"decoder.model.{last}.alpha"]]
    tensors += [state[f"decoder.model.{last + 1}.conv.{n}"] for n in ("weight", "bias")]
    return tensors
