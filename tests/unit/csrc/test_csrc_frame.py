"""The persistent frame kernel on the CPU emulation: packing, and whole frames against the reference model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import Sampling
from engine.config import ModelConfig
from engine.cuda.frame_kernel import FrameKernel, Geometry, PackedWeights, pack_product
from engine.cuda.random_model import S2_PRO
from engine.cuda.slot_state import KvPool, SlotState, arm
from engine.cuda.weights import ModelWeights
from engine.model.dual_ar import DualAR, KvCache
from engine.quant.formats import PER_ROW, quantise
from engine.quant.model import QuantisedModel
from engine.weights import expected_shapes
from tests.unit.csrc.emulated import EmulatedKernels, drawn

SEMANTIC_BEGIN, IM_END, CODES = 200, 190, 64
STACK = {
    "dim": 320,
    "n_head": 4,
    "n_local_heads": 2,
    "head_dim": 64,
    "intermediate_size": 384,
    "rope_base": 10000.0,
    "norm_eps": 1e-6,
}
CONFIG = ModelConfig.parse(
    {
        "model_type": "fish_qwen3_omni",
        "residual_codebook_size": 32,
        "text_config": {**STACK, "vocab_size": 272, "n_layer": 2, "max_seq_len": 128, "attention_qk_norm": True},
        "audio_decoder_config": {
            **STACK,
            "vocab_size": CODES,
            "num_codebooks": 4,
            "n_layer": 2,
            "text_dim": 320,
        },
    }
)
GEOMETRY = Geometry(CONFIG, blocks=16, warps=4, chunk_limit=1280)
CONTEXT = 96
GREEDY = Sampling(temperature=1e-6, top_p=0.9, top_k=30, seed=5)


def dequantised(weight: Tensor) -> Tensor:
    return quantise(weight, PER_ROW).dequantised()


def make_model() -> DualAR:
    """A model whose products are E4M3 numbers already (after the norm weights that go into them): what remains between
    the kernel and the reference is rounding of activations."""
    random = torch.Generator().manual_seed(3)
    state = {}
    for name, shape in expected_shapes(CONFIG).items():
        value = drawn(random, *shape)
        is_norm = name.endswith("norm.weight")
        value = 1 + 0.1 * value if is_norm else value * shape[-1] ** -0.5
        state[name] = value.bfloat16().float()
    for name in state:
        if ".attention.w" in name or ".feed_forward.w" in name:
            layer = name.rsplit(".", 3)[0]
            norm = {"wqkv": "attention_norm", "w1": "ffn_norm", "w3": "ffn_norm"}.get(name.split(".")[-2])
            folded = state[f"{layer}.{norm}.weight"] if norm else 1.0
            state[name] = dequantised(state[name] * folded) / folded
    state["embeddings.weight"] *= 4.0
    state["fast_output.weight"] *= 4.0
    model = DualAR(CONFIG, SEMANTIC_BEGIN, IM_END)
    model.load_state_dict(state, strict=True, assign=True)
    return model.eval().requires_grad_(False)


class Bench:
    def __init__(self, kernels: EmulatedKernels, model: DualAR, slots: int, *, kv_fp8: bool = False) -> None:
        self.kernels, self.model = kernels, model
        device = torch.get_default_device()
        tensors = {name: t.to(device) for name, t in model.state_dict().items()}
        ids = {"semantic_begin": SEMANTIC_BEGIN, "im_end": IM_END}
        weights = ModelWeights.build(CONFIG, tensors, context_tokens=CONTEXT, device=device, **ids)
        self.state = SlotState.fresh(CONFIG, slots, device)
        self.kv = KvPool.zeros(CONFIG.slow, slots + 1, CONTEXT, device, fp8=kv_fp8)
        packed = PackedWeights.build(GEOMETRY, QuantisedModel(tensors, PER_ROW, fold_norms=True), **ids)
        self.frame = FrameKernel(GEOMETRY, packed, weights, self.kv, self.state)
        self.flags = torch.zeros(2, 4, dtype=torch.uint8)

    def put_past(self, slot: int, k: Tensor, v: Tensor) -> None:
        """k, v [layers, T, G, D] of the reference cache."""
        tokens = k.shape[1]
        self.kv.keys[:, slot, :, :tokens] = k.transpose(1, 2).to(self.kv.keys.dtype)
        padded = torch.zeros(*v.shape[:1], tokens + tokens % 2, *v.shape[2:])
        padded[:, :tokens] = v
        pairs = padded.transpose(1, 2).unflatten(2, (-1, 2)).transpose(3, 4)
        self.kv.values[:, slot, :, : pairs.shape[2]] = pairs.to(self.kv.values.dtype)

    def step(self, slots: list[int]) -> None:
        self.flags.fill_(9)
        self.frame.run(self.kernels, torch.tensor(slots, dtype=torch.int32), self.flags)


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


@pytest.fixture(scope="module")
def model() -> DualAR:
    return make_model()


def reference_frames(
    model: DualAR, columns: Tensor, frames: int, *, kv_fp8: bool = False
) -> tuple[list[list[int]], KvCache]:
    """Greedy codes after the prompt columns int64 [1+K, T]; and the cache of all but its last column, which may be as
    E4M3 holds it."""
    tokens = columns.shape[1]
    cache = KvCache.zeros(CONFIG.slow, CONTEXT)
    model.slow(columns[:, :-1], 0, cache)
    if kv_fp8:
        for kept in (cache.k, cache.v):
            kept.copy_(kept.to(torch.float8_e4m3fn))
    past = KvCache(cache.k[:, : tokens - 1].clone(), cache.v[:, : tokens - 1].clone())
    column, made = columns[:, -1:], []
    for frame in range(frames):
        hidden, fast_input = model.slow(column, tokens - 1 + frame, cache)
        code = int(model.semantic_logits(hidden)[-1, :CODES].argmax())
        fast_cache = KvCache.zeros(CONFIG.fast, CONFIG.num_codebooks)
        x = torch.stack([fast_input[-1], model.fast_embeddings.weight[code]])
        codes = [code]
        for codebook in range(1, CONFIG.num_codebooks):
            logits = model.fast(x, 0 if codebook == 1 else codebook, fast_cache)[-1]
            codes.append(int(logits[: CONFIG.residual_codebook_size].argmax()))
            x = model.fast_embeddings.weight[codes[-1]][None]
        made.append(codes)
        column = torch.tensor([[SEMANTIC_BEGIN + code], *([c] for c in codes)])
    return made, past


def prompt(tokens: int, seed: int) -> Tensor:
    random = np.random.default_rng(seed)
    columns = np.zeros((5, tokens), np.int64)
    columns[0] = random.integers(0, 180, tokens)
    columns[1:, -1] = random.integers(0, 32, 4)
    columns[0, -1] = SEMANTIC_BEGIN + columns[1, -1]
    return torch.from_numpy(columns).to(torch.get_default_device())


@pytest.mark.parametrize(("batch", "kv_fp8"), [(1, False), (2, False), (4, False), (2, True)])
def test_frames_equal_the_reference(kernels: EmulatedKernels, model: DualAR, batch: int, kv_fp8: bool) -> None:
    bench = Bench(kernels, model, slots=5, kv_fp8=kv_fp8)
    frames, expected, order = 2, {}, [4, 0, 3, 1][:batch]
    for slot in order:
        columns = prompt(7 + 18 * slot, slot)
        expected[slot], past = reference_frames(model, columns, frames, kv_fp8=kv_fp8)
        bench.put_past(slot, past.k, past.v)
        last = columns[:, -1].cpu().numpy().astype(np.int32)
        arm(kernels, bench.state, slot, last, columns.shape[1] - 1, GREEDY)
    untouched = bench.kv.keys[:, 2].clone()
    for _ in range(frames):
        bench.step(order)
        assert not bench.flags[0, :batch].any()
        assert bench.flags[1, :batch].all()
    for slot in order:
        assert bench.state.codes[slot, :frames].tolist() == expected[slot], f"slot {slot}"
        assert int(bench.state.positions[slot]) == 7 + 18 * slot - 1 + frames
        assert int(bench.state.frames[slot]) == frames
    assert torch.equal(bench.kv.keys[:, 2].float(), untouched.float())


def test_a_padded_batch_leaves_the_scratch_slot_ended(kernels: EmulatedKernels, model: DualAR) -> None:
    bench = Bench(kernels, model, slots=2)
    columns = prompt(5, 1)
    expected, past = reference_frames(model, columns, 1)
    bench.put_past(1, past.k, past.v)
    arm(kernels, bench.state, 1, columns[:, -1].cpu().numpy().astype(np.int32), 4, GREEDY)
    bench.step([1, bench.state.scratch_slot])
    assert bench.state.codes[1, :1].tolist() == expected
    assert bench.flags[0, :2].tolist() == [0, 1]
    assert int(bench.state.frames[bench.state.scratch_slot]) == 0


def test_packing_is_a_permutation_with_scales() -> None:
    geometry = GEOMETRY
    for name, plan in geometry.plans().items():
        weight = drawn(torch.Generator().manual_seed(1), geometry.blocks * plan.rows, plan.k)
        quantised = quantise(weight, PER_ROW)
        packed = pack_product(plan, geometry.blocks, geometry.warps, weight if plan.half else quantised)
        chunks = packed.view(geometry.blocks, -1, plan.chunk_bytes)
        values = weight.half() if plan.half else quantised.values
        got = chunks[:, :, : plan.weight_bytes].flatten().sort().values
        assert torch.equal(got, values.contiguous().view(torch.uint8).flatten().sort().values), name
        scales = chunks[:, :, plan.weight_bytes :].contiguous().view(torch.float32)[..., : plan.chunk_rows]
        expected = torch.ones(weight.shape[0]) if plan.half else quantised.scale.flatten()
        by_group = expected.view(geometry.blocks, 1, -1, plan.chunk_rows).expand(-1, plan.parts, -1, -1)
        assert torch.equal(scales.reshape(by_group.shape), by_group), name


def test_the_full_size_model_fits_and_a_small_one_says_no() -> None:
    full = Geometry(S2_PRO)
    assert full.fits()
    assert full.batches() == [1, 2, 4]
    layer = sum(full.plans()[name].block_bytes for name in ("qkv", "out", "gate_up", "down"))
    weights = (6144 * 2560 + 2560 * 4096 + 19456 * 2560 + 2560 * 9728) // 128
    assert weights < layer < 1.01 * weights
    for batch in full.batches():
        assert full.stages(batch) >= 6
        assert full.shared_bytes(batch) <= 227 * 1024
    assert not Geometry(CONFIG).fits()
