"""What of the GPU's faults can be judged without one (group M of tests/FAULTS.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest
import torch
from torch import Tensor

from engine.cuda.buckets import batch_buckets, bucket_for, prefill_chunks
from engine.null import NullEngine
from tests.faults.churn import Churn
from tests.unit.csrc.small_model import codec_weights, small_codec


@pytest.mark.parametrize("limit", [1, 5, 24, 33, 64])
def test_fault_90_the_largest_batch_has_a_graph_and_none_is_larger(limit: int) -> None:
    sizes = batch_buckets(limit)
    assert max(sizes) == limit
    assert sizes == sorted(set(sizes))
    for rows in range(1, limit + 1):
        size = bucket_for(sizes, rows)
        assert rows <= size
        assert 3 * (size - rows) <= size, "a third of a graph's rows are padding, at most"
    with pytest.raises(ValueError, match="do not fit"):
        bucket_for(sizes, limit + 1)


@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 100, 513])
def test_fault_90_a_prompt_is_covered_once_by_pieces_that_have_a_graph(tokens: int) -> None:
    sizes = [16, 64, 256]
    chunks = prefill_chunks(tokens, sizes)
    assert sum(length for length, _ in chunks) == tokens
    assert all(length <= size and size in sizes for length, size in chunks)


def test_fault_85_the_churn_that_a_gpu_is_put_through_ends_every_turn_and_holds_no_slot() -> None:
    """What it costs the device is measured on one: tests/gpu/test_gpu_faults.py."""
    churn, over = Churn(NullEngine(slots=5)), Counter[str]()
    churn.run(100, after_each=lambda: over.update(["turns"]))
    assert over["turns"] == churn.counts["whole"] + churn.counts["cut off"] == 100
    assert min(churn.counts["cut off"], churn.counts["new voices"]) > 0


def tensors_in(weights: object) -> Iterator[Tensor]:
    if isinstance(weights, Tensor):
        yield weights
    elif isinstance(weights, tuple | list):
        for part in weights:
            yield from tensors_in(part)
    elif is_dataclass(weights):
        for field in fields(weights):
            yield from tensors_in(getattr(weights, field.name))


def test_fault_96_the_codec_stays_out_of_fp8() -> None:
    """Its decoder as the GPU holds it, and its encoder, which runs as it is on disk."""
    codec = small_codec()
    decoder = list(tensors_in(codec_weights(codec, torch.device("cpu"))))
    assert len(decoder) > 20
    for tensor in [*decoder, *codec.state_dict().values()]:
        assert tensor.element_size() >= 2
