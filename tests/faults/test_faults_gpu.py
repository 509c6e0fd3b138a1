"""What of the GPU's faults can be judged without one (group M of tests/FAULTS.md)."""

from __future__ import annotations

import pytest

from engine.cuda.buckets import batch_buckets, bucket_for, prefill_chunks


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
