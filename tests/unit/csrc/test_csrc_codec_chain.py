"""The streaming codec chain against engine.codec, on the CPU emulation: chunks, mates, resets, missing frames."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.cuda.codec import CodecChain
from engine.cuda.slot_state import SlotState
from tests.unit.csrc.emulated import EmulatedKernels
from tests.unit.csrc.small_model import CODEC_CONFIG, CONFIG, codec_weights, small_codec

MIN_SNR_DB = 50.0
"""fp16 weights and activations against fp32."""
HOP = CODEC_CONFIG.hop_samples
SLOTS = 3


class Streams:
    def __init__(self, kernels: EmulatedKernels, codec: Codec) -> None:
        self.slots = SlotState.fresh(CONFIG, SLOTS, torch.get_default_device())
        weights = codec_weights(codec, torch.get_default_device())
        self.chain = CodecChain(kernels, weights, self.slots, max_rows=SLOTS, max_frames=8, max_cells=16)

    def put(self, slot: int, codes: Tensor) -> None:
        """codes int [K, F]: the slot's frames so far."""
        self.slots.codes[slot, : codes.shape[1]] = codes.T.int()
        self.slots.frames[slot] = codes.shape[1]

    def run(self, width: int, *rows: tuple[int, int, int, int]) -> np.ndarray:
        return self.chain.run(torch.tensor(rows, dtype=torch.int32), width).cpu().numpy().copy()


@pytest.fixture(scope="module")
def codec() -> Codec:
    return small_codec()


@pytest.fixture(scope="module")
def kernels() -> EmulatedKernels:
    return EmulatedKernels()


@pytest.fixture
def streams(kernels: EmulatedKernels, codec: Codec) -> Streams:
    return Streams(kernels, codec)


def some_codes(frames: int, seed: int) -> Tensor:
    sizes = torch.tensor(CODEC_CONFIG.codebook_sizes)[:, None]
    random = torch.Generator().manual_seed(seed)
    return (torch.rand(4, frames, generator=random, device="cpu").to(sizes.device) * sizes).long()


def whole(codec: Codec, codes: Tensor) -> np.ndarray:
    return (codec.decode(codec.new_state(1), 0, codes) * 32767).cpu().numpy()


def snr_db(got: np.ndarray, exact: np.ndarray) -> float:
    return float(10 * np.log10(np.square(exact).sum() / np.square(exact - got).sum()))


def test_any_chunking_gives_the_same_samples_and_they_are_the_reference_s(streams: Streams, codec: Codec) -> None:
    codes = some_codes(9, seed=1)
    exact = whole(codec, codes)
    streams.put(0, codes)
    singles = np.concatenate([streams.run(1, (0, f, 1, int(f == 0)))[0] for f in range(9)])
    chunks = [streams.run(4, (0, 0, 4, 1))[0], streams.run(1, (0, 4, 1, 0))[0], streams.run(4, (0, 5, 4, 0))[0]]
    assert np.array_equal(np.concatenate(chunks), singles)
    assert snr_db(singles, exact) > MIN_SNR_DB


def test_rows_do_not_feel_each_other(streams: Streams) -> None:
    for slot in range(SLOTS):
        streams.put(slot, some_codes(4, seed=slot))
    together = [streams.run(2, *((slot, first, 2, int(first == 0)) for slot in (2, 0, 1))) for first in (0, 2)]
    for place, slot in enumerate((2, 0, 1)):
        alone = [streams.run(2, (slot, first, 2, int(first == 0)))[0] for first in (0, 2)]
        assert np.array_equal(np.concatenate(alone), np.concatenate([t[place] for t in together]))


def test_frames_that_never_came_are_silent_and_leave_no_trace(streams: Streams) -> None:
    codes = some_codes(5, seed=3)
    streams.put(0, codes)
    plain = [streams.run(1, (0, f, 1, int(f == 0)))[0] for f in range(5)]
    streams.put(0, codes[:, :3])
    streams.slots.codes[0, 3:] = 31
    early = streams.run(8, (0, 0, 8, 1))[0]
    assert np.array_equal(early[: 3 * HOP], np.concatenate(plain[:3]))
    assert not early[3 * HOP :].any()
    assert not streams.run(4, (0, 3, 4, 0)).any()
    streams.put(0, codes)
    rest = streams.run(2, (0, 3, 2, 0))[0]
    assert np.array_equal(rest, np.concatenate(plain[3:]))


def test_a_width_larger_than_asked_changes_nothing(streams: Streams) -> None:
    codes = some_codes(6, seed=4)
    streams.put(1, codes)
    plain = np.concatenate([streams.run(1, (1, f, 1, int(f == 0)))[0] for f in range(6)])
    wide = [streams.run(4, (1, 0, 3, 1))[0][: 3 * HOP], streams.run(4, (1, 3, 3, 0))[0][: 3 * HOP]]
    assert np.array_equal(np.concatenate(wide), plain)


def test_the_window_transformer_forgets_what_is_older_than_its_window(streams: Streams, codec: Codec) -> None:
    codes = some_codes(20, seed=5)
    streams.put(2, codes)
    got = np.concatenate([streams.run(4, (2, f, 4, int(f == 0)))[0] for f in range(0, 20, 4)])
    assert snr_db(got, whole(codec, codes)) > MIN_SNR_DB
