"""The CUDA backend on the CPU emulation against the reference backend: the backend contract, with the real kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.api import Sampling
from engine.backends.base import VocodeRow
from engine.backends.cuda import CudaBackend
from engine.backends.reference import ReferenceBackend
from engine.model.dual_ar import DualAR
from tests.unit.csrc.emulated import EmulatedDevice
from tests.unit.csrc.small_model import (
    CODEC_CONFIG,
    CODES,
    IM_END,
    SEMANTIC_BEGIN,
    codec_weights,
    model_weights,
    small_codec,
    small_model,
)

SLOTS = 3
CONTEXT = 96
GREEDY = Sampling(temperature=1e-6, top_p=0.9, top_k=30, seed=5)
MIN_SNR_DB = 50.0
BF16_COSINE, FP8_COSINE = 0.9998, 0.98
"""Of the semantic logits. E4M3 rounds to 2^-4 relative, and a random model amplifies what a trained one damps."""


def make_backend(model: DualAR, *, fp8: bool) -> CudaBackend:
    device = EmulatedDevice()
    codec = small_codec()
    return CudaBackend(
        device,
        model_weights(model, context_tokens=CONTEXT, device=device.torch_device, fp8=fp8),
        codec_weights(codec, device.torch_device),
        codec,
        slots=SLOTS,
        context_tokens=CONTEXT,
    )


@pytest.fixture(scope="module")
def model() -> DualAR:
    return small_model()


@pytest.fixture
def backend(model: DualAR) -> CudaBackend:
    return make_backend(model, fp8=False)


@pytest.fixture
def reference(model: DualAR) -> ReferenceBackend:
    return ReferenceBackend(model, small_codec(), slots=SLOTS, context_tokens=CONTEXT)


def prompt(tokens: int, seed: int) -> np.ndarray:
    """int32 [1+K, T]: text with a spoken stretch in the middle."""
    random = np.random.default_rng(seed)
    columns = np.zeros((5, tokens), np.int32)
    columns[0] = random.integers(0, 180, tokens)
    spoken = slice(tokens // 3, tokens // 2)
    columns[1, spoken] = random.integers(0, 64, len(columns[0, spoken]))
    columns[2:, spoken] = random.integers(0, 32, (3, len(columns[0, spoken])))
    columns[0, spoken] = SEMANTIC_BEGIN + columns[1, spoken]
    return columns


def start(backend, slot: int, columns: np.ndarray, sampling: Sampling) -> None:
    backend.prefill(slot, columns[:, :-1], 0)
    backend.arm(slot, columns[:, -1], columns.shape[1] - 1, sampling)


def step(backend, decode: list[int], vocode: list[VocodeRow] | None = None):
    return backend.collect(backend.submit(decode, vocode or []))


def codes_of(backend, slot: int, frames: int) -> np.ndarray:
    if isinstance(backend, CudaBackend):
        return backend._state.codes[slot, :frames].numpy().copy()
    return np.stack([c.numpy() for c in backend._slots[slot].codes[:frames]])


def test_greedy_codes_and_samples_equal_the_reference(backend: CudaBackend, reference: ReferenceBackend) -> None:
    frames = 3  # a random model has near-ties; a trained one is compared on the GPU over whole sentences
    audio = {}
    for made in (backend, reference):
        for slot, tokens in enumerate((7, 21, 40)):
            start(made, slot, prompt(tokens, slot), GREEDY)
        for _ in range(frames):
            result = step(made, [2, 0, 1])
            assert result.ended == [False] * 3
            assert result.bad_rows == []
        rows = [VocodeRow(1, 0, 3, True), VocodeRow(2, 0, 1, True), VocodeRow(0, 0, 2, True)]
        audio[made] = step(made, [], rows).pcm
    for slot in range(SLOTS):
        assert np.array_equal(codes_of(backend, slot, frames), codes_of(reference, slot, frames)), f"slot {slot}"
    for got, exact in zip(audio[backend], audio[reference], strict=True):
        assert got.shape == exact.shape
        error = np.square(got.astype(float) - exact).sum() / np.square(exact.astype(float)).sum()
        assert -10 * np.log10(error) > MIN_SNR_DB


@pytest.mark.parametrize(("fp8", "cosine"), [(False, BF16_COSINE), (True, FP8_COSINE)])
def test_logits_are_near_the_reference(model: DualAR, fp8: bool, cosine: float) -> None:
    backend = make_backend(model, fp8=fp8)
    columns = prompt(21, 1)
    start(backend, 0, columns, GREEDY)
    step(backend, [0])
    got = backend._frame.logits[0, : CODES + 1]
    hidden, _ = model.slow(torch.from_numpy(columns).long())
    exact = model.semantic_logits(hidden)[-1]
    assert float(torch.cosine_similarity(got, exact, dim=0)) > cosine


def test_a_stream_does_not_depend_on_its_mates_or_its_slot(backend: CudaBackend) -> None:
    sampling = Sampling(temperature=0.9, top_p=0.95, top_k=30, seed=77)
    start(backend, 0, prompt(11, 3), sampling)
    for _ in range(4):
        step(backend, [0])
    alone = codes_of(backend, 0, 4)
    start(backend, 2, prompt(11, 3), sampling)
    start(backend, 0, prompt(30, 4), GREEDY)
    start(backend, 1, prompt(17, 5), GREEDY)
    for _ in range(4):
        step(backend, [1, 2, 0])
    assert np.array_equal(codes_of(backend, 2, 4), alone)


def test_a_saved_prefix_is_as_good_as_computing_it(backend: CudaBackend) -> None:
    columns = prompt(23, 6)
    start(backend, 0, columns, GREEDY)
    for _ in range(3):
        step(backend, [0])
    plain = codes_of(backend, 0, 3)
    backend.prefill(1, columns[:, :15], 0)
    prefix = backend.save_prefix(1, 15)
    backend.load_prefix(2, prefix)
    backend.prefill(2, columns[:, 15:-1], 15)
    backend.arm(2, columns[:, -1], 22, GREEDY)
    for _ in range(3):
        step(backend, [2])
    assert np.array_equal(codes_of(backend, 2, 3), plain)


def test_the_end_is_reported_and_what_is_in_flight_changes_nothing(model: DualAR) -> None:
    loud = small_model()
    loud.embeddings.weight[IM_END] += 40 * loud.norm.weight / loud.norm.weight.norm()
    backend = make_backend(loud, fp8=False)
    ended_at = None
    start(backend, 0, prompt(9, 2), Sampling(temperature=1.0, top_p=1.0, top_k=200, seed=1))
    for frame in range(40):
        if step(backend, [0]).ended[0]:
            ended_at = frame
            break
    assert ended_at is not None
    before = codes_of(backend, 0, 64)
    result = step(backend, [0], [VocodeRow(0, 0, min(ended_at + 2, 8), True)])
    assert result.ended == [True]
    assert np.array_equal(codes_of(backend, 0, 64), before)
    if ended_at + 2 <= 8:
        assert not result.pcm[0][ended_at * CODEC_CONFIG.hop_samples :].any()
    start(backend, 0, prompt(9, 2), GREEDY)
    assert step(backend, [0]).ended in ([False], [True])


def test_a_reused_slot_equals_a_fresh_one(backend: CudaBackend, model: DualAR) -> None:
    start(backend, 1, prompt(31, 8), Sampling(seed=4))
    for _ in range(5):
        step(backend, [1])
    step(backend, [], [VocodeRow(1, 0, 4, True)])
    fresh = make_backend(model, fp8=False)
    audio = []
    for made in (backend, fresh):
        start(made, 1, prompt(12, 9), Sampling(seed=6))
        for _ in range(3):
            step(made, [1])
        audio.append(step(made, [], [VocodeRow(1, 0, 3, True)]).pcm[0])
    assert np.array_equal(codes_of(backend, 1, 3), codes_of(fresh, 1, 3))
    assert np.array_equal(*audio)


def test_two_steps_in_flight_are_collected_in_order(backend: CudaBackend) -> None:
    start(backend, 0, prompt(9, 2), GREEDY)
    start(backend, 1, prompt(12, 3), GREEDY)
    first = backend.submit([0, 1], [VocodeRow(0, 0, 1, True)])
    second = backend.submit([1], [VocodeRow(1, 0, 2, True), VocodeRow(0, 1, 1, False)])
    assert len(backend.collect(first).pcm[0]) == CODEC_CONFIG.hop_samples
    result = backend.collect(second)
    assert [len(pcm) // CODEC_CONFIG.hop_samples for pcm in result.pcm] == [2, 1]
    assert result.pcm[0].any()
    assert not result.pcm[1].any()  # slot 0 has no frame 1
