"""Small whole numbers in as many bits as the greatest has: what comes home from a lent machine is bounded in bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["from_planes", "to_planes"]


def to_planes(values: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """[N], none negative → [bits, ceil(N / 8)], the lowest bit first; each plane holds one bit of every value.

    Raises ValueError for a negative value, which would come back as another.
    """
    if len(values) and values.min() < 0:
        raise ValueError(f"{values.min()} is negative")
    bits = int(values.max(initial=0)).bit_length()
    planes = np.empty((bits, -(-len(values) // 8)), np.uint8)
    for bit in range(bits):
        planes[bit] = np.packbits((values >> bit & 1).astype(np.uint8))
    return planes


def from_planes(planes: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.int32]:
    """The first `count` values."""
    values = np.zeros(count, np.int32)
    for bit, plane in enumerate(planes):
        values |= np.unpackbits(plane, count=count).astype(np.int32) << bit
    return values
