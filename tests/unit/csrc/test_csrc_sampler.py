"""The samplers of csrc/sample.cu against engine.model.sampling, draw for draw, on the CPU emulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import Sampling
from engine.cuda.slot_state import MAX_TOP_K, RAS_WINDOW, SlotState, arm, sample_residual, sample_semantic
from engine.model.sampling import RAS_WINDOW as REFERENCE_WINDOW
from engine.model.sampling import SamplingRows, sample, uniforms
from tests.unit.csrc.emulated import EmulatedKernels, drawn

CODEBOOKS = 4
CODES = 300
RESIDUALS = 64
BEGIN = 1000
FAST_DIM = 8
POISON = -7


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


class Bench:
    """Slots with a state, and one call per draw."""

    def __init__(self, kernels: EmulatedKernels, samplings: list[Sampling]) -> None:
        self.kernels, self.samplings = kernels, samplings
        self.slots = len(samplings)
        zeros = {"dtype": torch.int32}
        self.state = SlotState(
            columns=torch.zeros(self.slots + 1, 1 + CODEBOOKS, **zeros),
            positions=torch.zeros(self.slots + 1, **zeros),
            frames=torch.zeros(self.slots + 1, **zeros),
            ended=torch.ones(self.slots + 1, **zeros),
            window=torch.zeros(self.slots + 1, RAS_WINDOW, **zeros),
            temperature=torch.ones(self.slots + 1),
            top_p=torch.zeros(self.slots + 1),
            top_k=torch.ones(self.slots + 1, **zeros),
            seed=torch.zeros(self.slots + 1, 2, **zeros),
            codes=torch.zeros(self.slots + 1, 64, CODEBOOKS, **zeros),
        )
        self.embeddings = torch.randn(CODES, FAST_DIM).bfloat16()
        self.row_codes = torch.full((self.slots, CODEBOOKS), POISON, dtype=torch.int32)
        self.flags = torch.full((2, self.slots), 9, dtype=torch.uint8)
        self.fast_x = torch.full((2 * self.slots, FAST_DIM), float("nan"))
        self.rows = torch.arange(self.slots, dtype=torch.int32)
        for slot, sampling in enumerate(samplings):
            arm(kernels, self.state, slot, np.arange(1 + CODEBOOKS) + slot, 40 + slot, sampling)

    def semantic(self, logits: Tensor) -> Tensor:
        self.fast_in = torch.randn(self.slots, FAST_DIM)
        sample_semantic(
            self.kernels,
            self.state,
            self.rows,
            logits,
            self.fast_in,
            None,
            self.embeddings,
            self.fast_x,
            self.row_codes,
            self.flags[0],
            self.flags[1],
            semantic_begin=BEGIN,
        )
        return self.row_codes[:, 0]

    def residual(self, logits: Tensor, codebook: int) -> Tensor:
        sample_residual(
            self.kernels,
            self.state,
            self.rows,
            logits,
            self.embeddings,
            self.fast_x[: self.slots],
            self.row_codes,
            self.flags[1],
            codebook=codebook,
            length=RESIDUALS,
            semantic_begin=BEGIN,
        )
        return self.row_codes[:, codebook]

    def parameters(self) -> SamplingRows:
        return SamplingRows(
            torch.tensor([s.temperature for s in self.samplings]),
            torch.tensor([s.top_p for s in self.samplings]),
            torch.tensor([s.top_k for s in self.samplings]),
            torch.tensor([s.seed for s in self.samplings]),
        )

    def expected(self, logits: Tensor, frame: int, stream: int) -> Tensor:
        rows = self.parameters()
        noise = uniforms(rows.seed, torch.full((self.slots,), frame), stream, logits.shape[1])
        return sample(logits, rows, noise).int()


MIXED = [
    Sampling(0.7, 0.8, 30, 1),
    Sampling(1.0, 1.0, 1, 2**40 + 3),
    Sampling(1e-6, 0.9, 30, 3),
    Sampling(1.3, 0.999, 200, 2**63 - 1),
    Sampling(0.9, 0.0, 50, 5),
    Sampling(1.0, 1.0, MAX_TOP_K, 6),
    Sampling(0.8, 0.5, 33, 7),
]


def test_the_window_is_the_reference_s() -> None:
    assert RAS_WINDOW == REFERENCE_WINDOW


def test_arming_sets_all_of_one_slot_and_nothing_of_the_others(kernels: EmulatedKernels) -> None:
    bench = Bench(kernels, MIXED[:3])
    before = {name: getattr(bench.state, name).clone() for name in SlotState.__slots__}
    bench.state.window[1] = 5
    arm(kernels, bench.state, 1, np.array([9, 8, 7, 6, 5]), 123, Sampling(0.25, 0.5, 12, (5 << 32) + 6))
    assert bench.state.columns[1].tolist() == [9, 8, 7, 6, 5]
    assert not bench.state.window[1].any()
    assert (int(bench.state.positions[1]), int(bench.state.frames[1]), int(bench.state.ended[1])) == (123, 0, 0)
    assert (float(bench.state.temperature[1]), float(bench.state.top_p[1]), int(bench.state.top_k[1])) == (
        0.25,
        0.5,
        12,
    )
    assert bench.state.seed[1].tolist() == [6, 5]
    for name, old in before.items():
        for slot in (0, 2, 3):
            assert torch.equal(getattr(bench.state, name)[slot], old[slot]), name


def test_a_top_k_beyond_the_sampler_is_refused(kernels: EmulatedKernels) -> None:
    bench = Bench(kernels, MIXED[:1])
    with pytest.raises(ValueError, match=f"top_k must be 1..{MAX_TOP_K}"):
        arm(kernels, bench.state, 0, np.arange(1 + CODEBOOKS), 0, Sampling(top_k=MAX_TOP_K + 1))


@pytest.mark.parametrize("scale", [0.1, 2.0, 8.0])
def test_draws_equal_the_reference_for_mixed_parameters(kernels: EmulatedKernels, scale: float) -> None:
    bench = Bench(kernels, MIXED)
    random = torch.Generator().manual_seed(3)
    for frame in range(6):
        bench.state.frames[: bench.slots] = frame
        bench.state.window.zero_()
        logits = drawn(random, bench.slots, CODES + 5) * scale
        logits[:, CODES:] = -1e4  # the end token cannot win, and padding must not count
        logits[:, CODES + 1 :] = 1e4
        expected = bench.expected(logits[:, : CODES + 1], frame, 0)
        assert torch.equal(bench.semantic(logits), expected)
        assert not bench.flags[0].any()
        assert bench.flags[1].all()
        torch.testing.assert_close(bench.fast_x[::2], bench.fast_in)
        torch.testing.assert_close(bench.fast_x[1::2], bench.embeddings[expected.long()].float())
        residual_logits = drawn(random, bench.slots, RESIDUALS) * scale
        expected = bench.expected(residual_logits, frame, 2)
        assert torch.equal(bench.residual(residual_logits, 2), expected)
        torch.testing.assert_close(bench.fast_x[: bench.slots], bench.embeddings[expected.long()].float())


def test_equal_logits_keep_index_order(kernels: EmulatedKernels) -> None:
    bench = Bench(kernels, [Sampling(1.0, 1.0, 5, seed) for seed in range(8)])
    logits = torch.zeros(8, CODES + 5)
    logits[:, 250:] = -50.0
    assert torch.equal(bench.semantic(logits), bench.expected(logits[:, : CODES + 1], 0, 0))


def test_a_repeated_token_is_drawn_once_more(kernels: EmulatedKernels) -> None:
    bench = Bench(kernels, [Sampling(1.0, 0.95, 30, seed) for seed in range(16)])
    logits = drawn(torch.Generator().manual_seed(5), 16, CODES + 5) * 2
    logits[:, CODES:] = -1e4
    bench.state.frames[:16] = 3
    first = bench.expected(logits[:, : CODES + 1], 3, 0)
    bench.state.window[:16, 4] = first + BEGIN
    bench.samplings = [Sampling(1.0, 0.9, 30, seed) for seed in range(16)]
    second = bench.expected(logits[:, : CODES + 1], 3, CODEBOOKS)
    assert torch.equal(bench.semantic(logits), second)
    assert not torch.equal(first, second)
    bench.state.frames[:16] = 0  # the first frame is exempt
    bench.samplings = [Sampling(1.0, 0.95, 30, seed) for seed in range(16)]
    assert torch.equal(bench.semantic(logits), bench.expected(logits[:, : CODES + 1], 0, 0))


def test_the_last_codebook_closes_the_frame(kernels: EmulatedKernels) -> None:
    bench = Bench(kernels, MIXED[:3])
    bench.state.ended[2] = 1
    bench.state.frames[:3] = torch.tensor([0, 66, 4], dtype=torch.int32)
    bench.state.window[1] = torch.arange(10, dtype=torch.int32)
    bench.row_codes[:] = torch.tensor([[11, 2, 3, POISON]] * 3, dtype=torch.int32)
    before = {name: getattr(bench.state, name)[2].clone() for name in SlotState.__slots__}
    last = bench.residual(torch.randn(3, RESIDUALS), CODEBOOKS - 1).tolist()
    for slot, frame in ((0, 0), (1, 66)):
        codes = [11, 2, 3, last[slot]]
        assert bench.state.columns[slot].tolist() == [BEGIN + 11, *codes]
        assert bench.state.codes[slot, frame % 64].tolist() == codes
        assert int(bench.state.frames[slot]) == frame + 1
        assert int(bench.state.positions[slot]) == 41 + slot
    assert not bench.state.window[0].any()  # the first frame is not remembered
    assert bench.state.window[1].tolist() == [*range(1, 10), BEGIN + 11]
    for name, old in before.items():
        assert torch.equal(getattr(bench.state, name)[2], old), f"an ended slot changed its {name}"


def test_the_end_is_sticky_and_bad_rows_are_reported(kernels: EmulatedKernels) -> None:
    bench = Bench(kernels, [Sampling(seed=s) for s in range(4)])
    logits = torch.randn(4, CODES + 5)
    logits[1, CODES] = 1e4
    logits[2, 17] = float("nan")
    logits[3] = float("inf")
    bench.semantic(logits)
    assert bench.flags[0, :2].tolist() == [0, 1]
    assert bench.flags[1].tolist() == [1, 1, 0, 0]
    assert int(bench.row_codes[:, 0].min()) >= 0
    assert int(bench.row_codes[:, 0].max()) < CODES
    bench.semantic(torch.randn(4, CODES + 5).index_fill_(1, torch.tensor([CODES]), -1e4))
    assert bench.flags[0, :2].tolist() == [0, 1]
