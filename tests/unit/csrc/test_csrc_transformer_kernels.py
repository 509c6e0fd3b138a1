"""Kernels of the two transformers against plain torch, on the CPU emulation: odd sizes, poisoned outputs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from engine.cuda.fast_attention import fast_attend
from engine.cuda.ops import Activation, Product, add_norm, attend, embed, swiglu
from engine.model.layers import apply_rope, rope_table
from engine.quant.formats import E4M3_MAX
from tests.unit.csrc.emulated import EmulatedKernels, drawn

BF16_TOLERANCE = 2.0**-8
"""Half an ulp of bf16, relative."""
ATTENTION_TOLERANCE = 6e-3
"""Relative L2: q, k, v and the weights of the keys are rounded to bf16."""
EPS = 1e-6


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


@pytest.fixture
def random() -> torch.Generator:
    return torch.Generator().manual_seed(11)


def normal(random: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return drawn(random, *shape).to(dtype)


def poisoned(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.full(shape, float("nan")).to(dtype)


def activation(rows: int, width: int, *, fp8: bool) -> Activation:
    if fp8:
        return Activation(poisoned(rows, 2, width, dtype=torch.float8_e4m3fn), poisoned(rows, dtype=torch.float32))
    return Activation(poisoned(rows, width), None)


def value(a: Activation) -> Tensor:
    return a.values.float() if a.scale is None else joined(a.values) * a.scale[:, None]


def joined(terms: Tensor) -> Tensor:
    """[B, 2, width] -> [B, width]."""
    return terms[:, 0].float() + terms[:, 1].float() / 16


def assert_activation(got: Activation, expected: Tensor) -> None:
    if got.scale is None:
        torch.testing.assert_close(got.values.float(), expected, rtol=BF16_TOLERANCE, atol=1e-6)
        return
    amax = expected.abs().amax(dim=1).clamp(min=1e-10)
    torch.testing.assert_close(got.scale, amax / E4M3_MAX, rtol=1e-5, atol=0)
    # The first term leaves half a step: 2^-4 of the value, or 2^-10 near zero. The second does so with what is left,
    # 16 times finer.
    error = (value(got) - expected).abs()
    assert bool((error <= expected.abs() * 2.0**-8 * 1.01 + got.scale[:, None] * 2.0**-14 * 1.01).all())


def product(random: torch.Generator, rows: int, width: int, *, scaled: bool) -> tuple[Product, Tensor]:
    if not scaled:
        values = normal(random, rows, width, dtype=torch.bfloat16)
        return Product(values, None, None), values.float()
    values = normal(random, rows, 2, width, dtype=torch.bfloat16)
    row, channel = normal(random, rows).abs(), normal(random, width).abs()
    return Product(values, row, channel), joined(values) * row[:, None] * channel


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight.float()


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize(("rows", "dim", "last_of"), [(1, 384, 1), (3, 256, 1), (2, 260, 2)])
def test_add_norm_is_residual_add_then_rms_norm(
    kernels: EmulatedKernels, random: torch.Generator, rows: int, dim: int, last_of: int, fp8: bool
) -> None:
    x = normal(random, rows * last_of, dim)
    weight = normal(random, dim, dtype=torch.bfloat16)
    delta, delta_value = product(random, rows * last_of, dim, scaled=fp8)
    expected_x = x.clone()
    expected_x[last_of - 1 :: last_of] += delta_value[last_of - 1 :: last_of]
    expected = rms(expected_x[last_of - 1 :: last_of], weight)
    out = activation(rows, dim, fp8=fp8)
    normed, summed = poisoned(rows, dim, dtype=torch.float32), poisoned(rows, dim, dtype=torch.float32)
    add_norm(kernels, x, delta, weight, out, eps=EPS, last_of=last_of, normed=normed, summed=summed)
    torch.testing.assert_close(x, expected_x, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(normed, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(summed, expected_x[last_of - 1 :: last_of], rtol=1e-6, atol=1e-6)
    assert_activation(out, expected)


def test_a_row_of_zeros_quantises_to_zeros(kernels: EmulatedKernels) -> None:
    out = activation(1, 256, fp8=True)
    add_norm(kernels, torch.zeros(1, 256), None, torch.ones(256, dtype=torch.bfloat16), out, eps=EPS)
    assert not value(out).any()


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(1, 768), (3, 100)])
def test_swiglu(kernels: EmulatedKernels, random: torch.Generator, rows: int, width: int, fp8: bool) -> None:
    gate_up, exact = product(random, rows, 2 * width, scaled=fp8)
    out = activation(rows, width, fp8=fp8)
    swiglu(kernels, gate_up, out)
    assert_activation(out, torch.nn.functional.silu(exact[:, :width]) * exact[:, width:])


@pytest.mark.parametrize("by_slot", [True, False])
def test_embed_adds_codebooks_where_the_token_is_semantic(
    kernels: EmulatedKernels, random: torch.Generator, by_slot: bool
) -> None:
    size, begin, dim = 8, 20, 130
    text, codes = normal(random, 40, dim, dtype=torch.bfloat16), normal(random, 24, dim, dtype=torch.bfloat16)
    columns = torch.tensor([[5, 0, 0, 0], [begin + 7, 7, 3, 1], [begin + size, 1, 1, 1]], dtype=torch.int32)
    positions = torch.tensor([9, 4, 2], dtype=torch.int32)
    rows = torch.tensor([2, 1, 0], dtype=torch.int32)
    x, row_position = poisoned(3, dim, dtype=torch.float32), torch.zeros(3, dtype=torch.int32)
    embed(
        kernels,
        rows,
        columns,
        positions,
        text,
        codes,
        x,
        row_position,
        by_slot=by_slot,
        semantic_begin=begin,
        spoken_scale=0.5,
    )
    spoken = (text[begin + 7].float() + codes[7].float() + codes[8 + 3].float() + codes[16 + 1].float()) * 0.5
    expected = torch.stack([text[5].float(), spoken, text[begin + size].float()])
    order = rows.long() if by_slot else torch.arange(3)
    torch.testing.assert_close(x, expected[order], rtol=1e-6, atol=1e-6)
    assert torch.equal(row_position, positions[order])


def split_heads(x: Tensor, heads: int, kv_heads: int, head_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = x.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], dim=-1)
    return tuple(part.unflatten(-1, (-1, head_dim)) for part in (q, k, v))


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One query [H, D] over k, v [T, G, D], in float64."""
    group = q.shape[0] // k.shape[1]
    k, v = (t.double().repeat_interleave(group, dim=1) for t in (k, v))
    scores = torch.einsum("hd,thd->ht", q.double(), k) / math.sqrt(q.shape[1])
    return torch.einsum("ht,thd->hd", scores.softmax(-1), v)


def cached(x: Tensor, *, kv_fp8: bool) -> Tensor:
    """As the cache holds it."""
    return x.to(torch.float8_e4m3fn if kv_fp8 else torch.bfloat16)


def bits(x: Tensor) -> Tensor:
    return x.view(torch.uint8 if x.dtype == torch.float8_e4m3fn else torch.int16)


@pytest.mark.parametrize("kv_fp8", [False, True])
@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize("splits", [1, 3, 8])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(6, 2, 64), (8, 2, 128)])
def test_attend_appends_and_attends_to_ragged_slots(
    kernels: EmulatedKernels,
    random: torch.Generator,
    heads: int,
    kv_heads: int,
    head_dim: int,
    splits: int,
    fp8: bool,
    kv_fp8: bool,
) -> None:
    slots, context = 4, 160
    position = torch.tensor([0, 17, 129, 63], dtype=torch.int32)
    slot = torch.tensor([3, 0, 2, 1], dtype=torch.int32)
    rows = len(slot)
    past_k = cached(normal(random, slots, context, kv_heads, head_dim), kv_fp8=kv_fp8).float()
    past_v = cached(normal(random, slots, context, kv_heads, head_dim), kv_fp8=kv_fp8).float()
    for s, p in zip(slot.tolist(), position.tolist(), strict=True):
        # What an earlier owner left behind must not be felt, whatever it is.
        past_k[s, p:] = past_v[s, p:] = float("nan")
    keys = cached(past_k.transpose(1, 2).contiguous(), kv_fp8=kv_fp8)
    values = cached(past_v.transpose(1, 2).unflatten(2, (-1, 2)).transpose(3, 4).contiguous(), kv_fp8=kv_fp8)
    untouched = keys.clone(), values.clone()
    qkv, exact = product(random, rows, (heads + 2 * kv_heads) * head_dim, scaled=fp8)
    norms = (normal(random, head_dim, dtype=torch.bfloat16), normal(random, head_dim, dtype=torch.bfloat16))
    rope = rope_table(head_dim, 1e6, context, bf16=True)
    width = heads * head_dim
    out = activation(rows, width, fp8=fp8)
    attend(
        kernels,
        qkv,
        norms,
        rope,
        slot,
        position,
        keys,
        values,
        poisoned(rows, heads, head_dim),
        poisoned(rows, splits, heads, head_dim, dtype=torch.float32),
        poisoned(rows, splits, heads, 2, dtype=torch.float32),
        out,
        eps=EPS,
    )
    expected = []
    for row, (s, p) in enumerate(zip(slot.tolist(), position.tolist(), strict=True)):
        q, k, v = split_heads(exact[row], heads, kv_heads, head_dim)
        q = apply_rope(rms(q, norms[0])[None], rope[p : p + 1])[0]
        k = apply_rope(rms(k, norms[1])[None], rope[p : p + 1])[0]
        new_k, new_v = keys[s, :, p].float(), values[s, :, p // 2, :, p % 2].float()
        rtol, atol = (2.0**-4, 2.0**-10) if kv_fp8 else (BF16_TOLERANCE, 1e-6)
        torch.testing.assert_close(new_k, k, rtol=rtol, atol=atol)
        torch.testing.assert_close(new_v, v, rtol=rtol, atol=atol)
        # What the cache rounds is rounded for both.
        all_k = torch.cat([past_k[s, :p], (new_k if kv_fp8 else k)[None]])
        all_v = torch.cat([past_v[s, :p], (new_v if kv_fp8 else v)[None]])
        expected.append(attention(q, all_k, all_v).flatten())
        # Nothing else of the pool was written.
        keys[s, :, p] = untouched[0][s, :, p]
        values[s, :, p // 2, :, p % 2] = untouched[1][s, :, p // 2, :, p % 2]
    assert torch.equal(bits(keys), bits(untouched[0]))
    assert torch.equal(bits(values), bits(untouched[1]))
    want = torch.stack(expected)
    if fp8:
        assert float((value(out) - want).norm() / want.norm()) < 0.04
    else:
        assert float((value(out) - want).norm() / want.norm()) < ATTENTION_TOLERANCE


@pytest.mark.parametrize("kv_fp8", [False, True])
@pytest.mark.parametrize("splits", [1, 4, 8])
@pytest.mark.parametrize(("start", "count", "padding"), [(0, 21, 0), (37, 9, 7), (150, 1, 3)])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(2, 2, 64), (6, 2, 64), (8, 2, 128), (8, 1, 64)])
def test_rows_of_one_slot_attend_as_each_would_alone(
    kernels: EmulatedKernels,
    random: torch.Generator,
    heads: int,
    kv_heads: int,
    head_dim: int,
    start: int,
    count: int,
    padding: int,
    splits: int,
    kv_fp8: bool,
) -> None:
    """`count` positions from `start` on of slot 1; `padding` rows after them all write to one place of slot 0, in any
    order, and mean nothing."""
    slots, context, rows, width = 2, 160, count + padding, heads * head_dim
    k = normal(random, slots, kv_heads, context, head_dim)
    v = normal(random, slots, kv_heads, context, head_dim)
    # What an earlier owner left behind must not be felt, whatever it is.
    k[1, :, start:] = v[1, :, start:] = float("nan")
    k = cached(k, kv_fp8=kv_fp8)
    v = cached(v.unflatten(2, (-1, 2)).transpose(3, 4).contiguous(), kv_fp8=kv_fp8)
    slot = torch.tensor([1] * count + [0] * padding, dtype=torch.int32)
    position = torch.tensor([*range(start, start + count)] + [0] * padding, dtype=torch.int32)
    qkv, _ = product(random, rows, (heads + 2 * kv_heads) * head_dim, scaled=False)
    norms = (normal(random, head_dim, dtype=torch.bfloat16), normal(random, head_dim, dtype=torch.bfloat16))
    rope = rope_table(head_dim, 1e6, context, bf16=True)
    answers = []
    for one_slot in (False, True):
        keys, values, out = k.clone(), v.clone(), activation(rows, width, fp8=False)
        attend(
            kernels,
            qkv,
            norms,
            rope,
            slot,
            position,
            keys,
            values,
            poisoned(rows, heads, head_dim),
            poisoned(rows, splits, heads, head_dim, dtype=torch.float32),
            poisoned(rows, splits, heads, 2, dtype=torch.float32),
            out,
            eps=EPS,
            one_slot=one_slot,
        )
        answers.append((keys, values, value(out)))
    (_, _, want), (_, _, got) = answers
    assert float((got[:count] - want[:count]).norm() / want[:count].norm()) < ATTENTION_TOLERANCE
    assert bool(got.isfinite().all())
    for alone, together in zip(answers[0][:2], answers[1][:2], strict=True):
        assert torch.equal(bits(alone[1]), bits(together[1]))


@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 2, 64), (8, 2, 128)])
def test_fast_attend_one_frame_position_by_position(
    kernels: EmulatedKernels, random: torch.Generator, heads: int, kv_heads: int, head_dim: int, qk_norm: bool
) -> None:
    rows, codebooks = 3, 5
    width = (heads + 2 * kv_heads) * head_dim
    norms = (
        (normal(random, head_dim, dtype=torch.bfloat16), normal(random, head_dim, dtype=torch.bfloat16))
        if qk_norm
        else None
    )
    rope = rope_table(head_dim, 1e6, codebooks, bf16=True)
    keys, values = poisoned(rows, codebooks, kv_heads, head_dim), poisoned(rows, codebooks, kv_heads, head_dim)
    inputs = normal(random, rows, codebooks, width, dtype=torch.bfloat16)
    for first, tokens in [(0, 2), (2, 1), (3, 1), (4, 1)]:
        qkv = Product(inputs[:, first : first + tokens].flatten(0, 1).contiguous(), None, None)
        out = activation(rows * tokens, heads * head_dim, fp8=False)
        fast_attend(
            kernels,
            qkv,
            norms,
            rope,
            keys,
            values,
            out,
            heads=heads,
            first=first,
            tokens=tokens,
            eps=EPS,
        )
        for row in range(rows):
            q, k, v = split_heads(inputs[row].float(), heads, kv_heads, head_dim)
            if norms:
                q, k = rms(q, norms[0]), rms(k, norms[1])
            q, k = apply_rope(q, rope), apply_rope(k, rope)
            for token in range(tokens):
                at = first + token
                want = attention(q[at], k[: at + 1], v[: at + 1]).flatten()
                got = out.values[row * tokens + token].float()
                assert float((got - want).norm() / want.norm()) < ATTENTION_TOLERANCE


def test_a_wrong_layout_is_refused(kernels: EmulatedKernels) -> None:
    weight = torch.ones(256, dtype=torch.bfloat16)
    out = activation(2, 256, fp8=False)
    with pytest.raises(ValueError, match=r"x must be contiguous torch.float32 \[2, 256\]"):
        add_norm(kernels, torch.zeros(256, 2).T, None, weight, out, eps=EPS)
    with pytest.raises(ValueError, match="output"):
        add_norm(kernels, torch.zeros(3, 256), None, weight, out, eps=EPS)
