"""The CUDA backend on the device: the bundled voice against its golden codes and samples, and the rules of the step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.api import Sampling
from engine.backends.base import VocodeRow
from engine.backends.cuda import CudaBackend
from engine.codec.codec import Codec
from engine.cuda.load import make_backend
from engine.stored_model import open_model

pytestmark = pytest.mark.gpu

BUNDLED_VOICE = Path(__file__).parents[2] / "engine" / "assets" / "voice-v0"
GOLDEN = Path(__file__).parents[1] / "golden" / "voice_v0.npz"
SLOTS = 5
GREEDY = Sampling(temperature=1e-6, top_p=0.9, top_k=30, seed=1)
MIN_SNR_DB = 50.0
MIN_BF16_FRAMES, MIN_FP8_FRAMES = 5, 0
"""Frames from the start of a greedy decode that equal the fp32 golden codes in every codebook."""


def make(*, fp8: bool) -> CudaBackend:
    with torch.device("cpu"):
        model, codec = open_model(BUNDLED_VOICE), Codec.load(BUNDLED_VOICE)
    return make_backend(model, codec, slots=SLOTS, context_tokens=1024, fp8=fp8)


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as file:
        return dict(file)


@pytest.fixture(scope="module")
def bf16() -> CudaBackend:
    return make(fp8=False)


@pytest.fixture(scope="module")
def fp8() -> CudaBackend:
    return make(fp8=True)


def start(backend: CudaBackend, slot: int, columns: np.ndarray, sampling: Sampling) -> None:
    columns = np.ascontiguousarray(columns, np.int32)
    backend.prefill(slot, columns[:, :-1], 0)
    backend.arm(slot, columns[:, -1], columns.shape[1] - 1, sampling)


def decode(backend: CudaBackend, slots: list[int], frames: int) -> None:
    tickets = []
    for _ in range(frames):
        tickets.append(backend.submit(slots, []))
        if len(tickets) == backend.steps_in_flight:
            backend.collect(tickets.pop(0))
    for ticket in tickets:
        backend.collect(ticket)


def codes_of(backend: CudaBackend, slot: int, frames: int) -> np.ndarray:
    return backend._state.codes[slot, :frames].T.cpu().numpy()


def equal_frames(got: np.ndarray, exact: np.ndarray) -> int:
    equal = (got == exact).all(axis=0)
    return len(equal) if equal.all() else int(np.argmin(equal))


@pytest.mark.parametrize(("precision", "least"), [("bf16", MIN_BF16_FRAMES), ("fp8", MIN_FP8_FRAMES)])
def test_greedy_codes_begin_as_the_golden_ones(
    request: pytest.FixtureRequest, golden: dict[str, np.ndarray], precision: str, least: int
) -> None:
    backend = request.getfixturevalue(precision)
    for slot, name in enumerate(("ref", "default")):
        exact = golden[f"codes_{name}"]
        frames = exact.shape[1]
        start(backend, slot, golden[f"prompt_{name}"], GREEDY)
        decode(backend, [slot], frames)
        same = equal_frames(codes_of(backend, slot, frames), exact)
        print(f"{precision}, prompt {name}: {same} of {frames} frames equal")
        assert same >= least


def test_a_stream_does_not_depend_on_its_mates(bf16: CudaBackend, golden: dict[str, np.ndarray]) -> None:
    sampling = Sampling(temperature=0.8, top_p=0.9, top_k=30, seed=9)
    for slot in (3, 1, 0):
        start(bf16, slot, golden["prompt_ref"], sampling)
    decode(bf16, [3, 1, 0], 12)
    same = codes_of(bf16, 3, 12)
    assert np.array_equal(codes_of(bf16, 1, 12), same)
    assert np.array_equal(codes_of(bf16, 0, 12), same)


def test_submit_never_waits_for_the_device(bf16: CudaBackend, golden: dict[str, np.ndarray]) -> None:
    for slot in range(SLOTS):
        start(bf16, slot, golden["prompt_ref"], GREEDY)
    slots = list(range(SLOTS))
    torch.cuda.synchronize()
    pending = []
    for frame in range(50):
        torch.cuda.set_sync_debug_mode("error")
        try:
            rows = [VocodeRow(slot, frame, 1, frame == 0) for slot in slots]
            pending.append(bf16.submit(slots, rows))
        finally:
            torch.cuda.set_sync_debug_mode("default")
        if len(pending) == bf16.steps_in_flight:
            bf16.collect(pending.pop(0))
    for ticket in pending:
        bf16.collect(ticket)


def test_nothing_is_allocated_once_it_serves(bf16: CudaBackend, golden: dict[str, np.ndarray]) -> None:
    def speak() -> None:
        start(bf16, 2, golden["prompt_ref"], GREEDY)
        for frame in range(5):
            bf16.collect(bf16.submit([2], [VocodeRow(2, frame, 1, frame == 0)]))

    speak()
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        speak()
    assert torch.cuda.memory_allocated() == before


def test_chunked_samples_equal_whole_ones_and_the_reference(bf16: CudaBackend, golden: dict[str, np.ndarray]) -> None:
    frames = 12
    audio = []
    for widths in ([8, 4], [1] * 12, [3, 1, 5, 2, 1]):
        start(bf16, 4, golden["prompt_ref"], GREEDY)
        decode(bf16, [4], frames)
        parts, first = [], 0
        for width in widths:
            parts.append(bf16.collect(bf16.submit([], [VocodeRow(4, first, width, first == 0)])).pcm[0])
            first += width
        audio.append(np.concatenate(parts))
    assert np.array_equal(audio[0], audio[1])
    assert np.array_equal(audio[0], audio[2])
    codes = torch.from_numpy(codes_of(bf16, 4, frames).astype(np.int64))
    with torch.device("cpu"):
        codec = Codec.load(BUNDLED_VOICE)
        exact = (codec.decode(codec.new_state(1), 0, codes) * 32767).numpy()
    error = np.square(audio[0] - exact).sum() / np.square(exact).sum()
    snr = -10 * np.log10(error)
    print(f"codec SNR {snr:.1f} dB")
    assert snr > MIN_SNR_DB
