"""The model against a second, naive writing of the page it follows, in fp64 loops over positions and heads."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from engine.config import ModelConfig, StackConfig
from engine.model.dual_ar import DualAR, KvCache
from engine.weights import check, expected_shapes
from tests.tiny_model import CONFIG

Array = npt.NDArray[np.float64]

SEMANTIC_BEGIN, IM_END = 261, 258
TOLERANCE = 2e-5
"""fp32 against fp64 over four blocks of width 48: the largest difference seen is 4e-6. What the least of the flags
changes (exact rotary tables) is 9e-3."""

VARIANTS: dict[str, dict[str, Any]] = {
    "s2": {},
    "pre-norm conditioning": {"norm_fastlayer_input": False},
    "unscaled codebooks": {"scale_codebook_embeddings": False},
    "exact rope": {"rope_table_bf16": False},
    "untied": {"text_config": {"tie_word_embeddings": False}},
    "biases": {"text_config": {"attention_qkv_bias": True, "attention_o_bias": True}},
    "no qk norm, no grouping": {"text_config": {"attention_qk_norm": False, "n_local_heads": -1}},
    "same width": {"audio_decoder_config": {"dim": 48}},
    "fast qk norm": {"audio_decoder_config": {"attention_qk_norm": True}},
}


def make(variant: dict[str, Any]) -> tuple[DualAR, dict[str, Array]]:
    data = copy.deepcopy(CONFIG)
    for key, value in variant.items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else value  # type: ignore[dict-item]
    config = ModelConfig.parse(data)
    generator = torch.Generator().manual_seed(11)
    tensors = {
        name: (1 if "norm" in name else 0) + torch.randn(shape, generator=generator) / max(1, shape[-1]) ** 0.5
        for name, shape in expected_shapes(config).items()
    }
    model = DualAR(config, SEMANTIC_BEGIN, IM_END)
    check(dict(model.state_dict()), expected_shapes(config), "the module tree")
    model.load_state_dict(tensors)
    return model.eval(), {name: tensor.double().numpy() for name, tensor in tensors.items()}


def rms(x: Array, weight: Array, eps: float) -> Array:
    return x / math.sqrt(float((x * x).mean()) + eps) * weight


def rotate(x: Array, position: int, base: float, bf16: bool) -> Array:
    out = x.copy()
    for i in range(len(x) // 2):
        angle = torch.tensor(np.float32(position) * np.float32(base ** (-2 * i / len(x))))
        cos, sin = angle.cos(), angle.sin()
        c, s = (float(v.bfloat16() if bf16 else v) for v in (cos, sin))
        out[2 * i] = x[2 * i] * c - x[2 * i + 1] * s
        out[2 * i + 1] = x[2 * i + 1] * c + x[2 * i] * s
    return out


def naive_stack(w: dict[str, Array], prefix: str, stack: StackConfig, x: list[Array], bf16: bool) -> list[Array]:
    for layer in range(stack.layers):
        p = f"{prefix}.{layer}."
        keys: list[list[Array]] = []
        values: list[list[Array]] = []
        for position, vector in enumerate(x):
            h = rms(vector, w[p + "attention_norm.weight"], stack.norm_eps)
            qkv = w[p + "attention.wqkv.weight"] @ h + w.get(p + "attention.wqkv.bias", np.float64(0))
            heads = [qkv[i : i + stack.head_dim] for i in range(0, len(qkv), stack.head_dim)]
            q, k = heads[: stack.heads], heads[stack.heads : stack.heads + stack.kv_heads]
            if stack.qk_norm:
                q = [rms(head, w[p + "attention.q_norm.weight"], stack.norm_eps) for head in q]
                k = [rms(head, w[p + "attention.k_norm.weight"], stack.norm_eps) for head in k]
            q = [rotate(head, position, stack.rope_base, bf16) for head in q]
            keys.append([rotate(head, position, stack.rope_base, bf16) for head in k])
            values.append(heads[stack.heads + stack.kv_heads :])
            mixed = []
            for number, head in enumerate(q):
                group = number // (stack.heads // stack.kv_heads)
                scores = np.array([head @ key[group] for key in keys]) / math.sqrt(stack.head_dim)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                mixed.append(sum(a * value[group] for a, value in zip(weights, values, strict=True)))
            out = w[p + "attention.wo.weight"] @ np.concatenate(mixed)
            vector = vector + out + w.get(p + "attention.wo.bias", np.float64(0))
            h = rms(vector, w[p + "ffn_norm.weight"], stack.norm_eps)
            gate = w[p + "feed_forward.w1.weight"] @ h
            up = w[p + "feed_forward.w3.weight"] @ h
            x[position] = vector + w[p + "feed_forward.w2.weight"] @ (gate / (1 + np.exp(-gate)) * up)
    return x


def naive_embed(config: ModelConfig, w: dict[str, Array], column: list[int]) -> Array:
    token, codes = column[0], column[1:]
    x = w["embeddings.weight"][token]
    if not SEMANTIC_BEGIN <= token < SEMANTIC_BEGIN + config.codebook_size:
        return x
    for book, code in enumerate(codes):
        x = x + w["codebook_embeddings.weight"][book * config.codebook_size + code]
    return x / math.sqrt(len(codes) + 1) if config.scale_codebook_embeddings else x


def naive_frame(config: ModelConfig, w: dict[str, Array], columns: list[list[int]], codes: list[int]) -> list[Array]:
    """Logits of the semantic token after `columns`, and of each codebook given the codes before it."""
    bf16 = config.rope_table_bf16
    x = naive_stack(w, "layers", config.slow, [naive_embed(config, w, c) for c in columns], bf16)[-1]
    hidden = rms(x, w["norm.weight"], config.slow.norm_eps)
    head = w["embeddings.weight" if config.tie_word_embeddings else "output.weight"]
    allowed = [*range(SEMANTIC_BEGIN, SEMANTIC_BEGIN + config.codebook_size), IM_END]
    logits = [np.array([head[i] @ hidden for i in allowed])]
    condition = hidden if config.norm_fastlayer_input else x
    if config.has_project_in:
        condition = w["fast_project_in.weight"] @ condition + w["fast_project_in.bias"]
    inputs = [condition, *(w["fast_embeddings.weight"][code] for code in codes[:-1])]
    fast = naive_stack(w, "fast_layers", config.fast, inputs, bf16)
    for y in fast[1:]:
        logits.append(w["fast_output.weight"] @ rms(y, w["fast_norm.weight"], config.fast.norm_eps))
    return logits


def some_columns(config: ModelConfig, tokens: int) -> npt.NDArray[np.int64]:
    """Text, then speech, then text, with codes at the speech alone."""
    rng = np.random.default_rng(5)
    columns = np.zeros((1 + config.num_codebooks, tokens), np.int64)
    columns[0] = rng.integers(0, 256, tokens)
    spoken = slice(3, tokens - 4)
    columns[1:, spoken] = rng.integers(0, config.codebook_size, columns[1:, spoken].shape)
    columns[0, spoken] = SEMANTIC_BEGIN + columns[1, spoken]
    return columns


@pytest.mark.parametrize("name", VARIANTS)
@torch.inference_mode()
def test_a_frame_equals_the_naive_writing(name: str) -> None:
    model, weights = make(VARIANTS[name])
    config = model.config
    columns = some_columns(config, 14)
    codes = [7, 3, 30, 11]
    expected = naive_frame(config, weights, columns.T.tolist(), codes)

    hidden, fast_input = model.slow(torch.from_numpy(columns))
    embedded = model.fast_embeddings(torch.tensor(codes[:-1]))
    fast = model.fast(torch.cat([model.project(fast_input[-1:]), embedded]), 0)
    found = [model.semantic_logits(hidden)[-1], *fast[1:]]
    assert len(found) == len(expected) == config.num_codebooks
    for logits, naive in zip(found, expected, strict=True):
        assert np.abs(logits.numpy() - naive).max() < TOLERANCE


@pytest.mark.parametrize("cuts", [[13], [1, 2, 3], [5, 6], list(range(1, 14))])
@torch.inference_mode()
def test_a_prompt_in_pieces_leaves_the_state_of_the_whole(cuts: list[int]) -> None:
    """A warm prefix and then the turn, a turn after history, one token at a time: the same KV and hidden state."""
    model, _ = make({})
    columns = torch.from_numpy(some_columns(model.config, 14))
    whole, pieces = (KvCache.zeros(model.config.slow, 20) for _ in range(2))
    hidden = model.slow(columns, 0, whole)[0][-1]
    for start, end in zip([0, *cuts], [*cuts, 14], strict=True):
        last = model.slow(columns[:, start:end], start, pieces)[0][-1]
    for a, b in ((hidden, last), (whole.k, pieces.k), (whole.v, pieces.v)):
        assert float((a - b).abs().max()) < TOLERANCE


@torch.inference_mode()
def test_codebooks_zero_and_one_in_one_pass_equal_one_pass_each() -> None:
    model, _ = make({})
    fast = model.config.fast
    x = torch.randn(2, fast.dim, generator=torch.Generator().manual_seed(2))
    together, apart = (KvCache.zeros(fast, model.config.num_codebooks) for _ in range(2))
    both = model.fast(x, 0, together)
    one_by_one = torch.cat([model.fast(x[i : i + 1], i, apart) for i in range(2)])
    assert float((both - one_by_one).abs().max()) < TOLERANCE
    assert float((together.k - apart.k).abs().max()) < TOLERANCE


@torch.inference_mode()
def test_later_columns_never_change_earlier_ones() -> None:
    model, _ = make({})
    columns = torch.from_numpy(some_columns(model.config, 14))
    changed = columns.clone()
    changed[0, 9:] = 65
    a, b = model.slow(columns)[0], model.slow(changed)[0]
    assert torch.equal(a[:9], b[:9])
    assert not torch.equal(a[9:], b[9:])
