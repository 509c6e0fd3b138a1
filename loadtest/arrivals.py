"""When turns begin, drawn beforehand: an open loop's arrivals do not wait for the server."""

from __future__ import annotations

import random

__all__ = ["burst", "poisson"]


def poisson(rate_per_s: float, seconds: float, seed: int) -> list[float]:
    """Offsets in seconds, ascending, of a Poisson process; the same for the same seed."""
    rng, offsets, at = random.Random(seed), [], 0.0
    while (at := at + rng.expovariate(rate_per_s)) < seconds:
        offsets.append(at)
    return offsets


def burst(count: int, within_s: float, seed: int) -> list[float]:
    """`count` offsets, uniform within the time."""
    rng = random.Random(seed)
    return sorted(rng.uniform(0.0, within_s) for _ in range(count))
