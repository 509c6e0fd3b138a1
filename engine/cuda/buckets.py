"""Which batch sizes get a captured graph, and which graph a batch uses. Pure: no torch.

Every size that can occur is covered, the largest exactly (a limit of 33 has a graph for 33), so no step is ever eager.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

__all__ = ["batch_buckets", "bucket_for", "codec_launches", "prefill_chunks"]

DENSE_UP_TO = 4
STEPS_PER_OCTAVE = 2
"""Above DENSE_UP_TO: 6, 8, 12, 16, 24, 32, …; a batch is padded by at most a third."""


def batch_buckets(limit: int) -> list[int]:
    """Ascending sizes from 1 to exactly `limit`."""
    if limit < 1:
        raise ValueError(f"there is no batch of {limit} rows")
    sizes = {size for size in range(1, DENSE_UP_TO + 1) if size <= limit}
    octave = DENSE_UP_TO
    while octave < limit:
        sizes |= {octave + octave * step // STEPS_PER_OCTAVE for step in range(1, STEPS_PER_OCTAVE + 1)}
        octave *= 2
    return sorted({size for size in sizes if size < limit} | {limit})


def bucket_for(buckets: Sequence[int], count: int) -> int:
    """The smallest bucket that holds `count`. Raises ValueError past the largest."""
    index = bisect.bisect_left(buckets, count)
    if index == len(buckets):
        raise ValueError(f"{count} rows do not fit the largest bucket, {buckets[-1]}")
    return buckets[index]


def prefill_chunks(tokens: int, buckets: Sequence[int]) -> list[tuple[int, int]]:
    """A prompt as (tokens, bucket) pieces in order: full pieces of the largest bucket, then what is left."""
    largest = buckets[-1]
    pieces = [(largest, largest)] * (tokens // largest)
    rest = tokens % largest
    return pieces + ([(rest, bucket_for(buckets, rest))] if rest else [])


def codec_launches(frames: Sequence[int], widths: Sequence[int], max_cells: int) -> list[tuple[int, list[int]]]:
    """Rows with their frame counts -> launches of (width, row indices), each at most `max_cells` = rows * width.

    Rows of one width go together; a row's width is the smallest of `widths` that holds its frames.
    """
    by_width: dict[int, list[int]] = {}
    for row, count in enumerate(frames):
        by_width.setdefault(bucket_for(widths, count), []).append(row)
    launches = []
    for width, rows in sorted(by_width.items()):
        per_launch = max_cells // width
        launches += [(width, rows[first : first + per_launch]) for first in range(0, len(rows), per_launch)]
    return launches
