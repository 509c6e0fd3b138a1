"""The sampler against the page it follows, written rank by rank in fp64."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.model.sampling import SamplingRows, sample, uniforms

CLOSE = 1e-4
"""A decision nearer than this (relative) is left to rounding: fp32 and fp64 may take it differently."""


def by_the_page(logits: list[float], temperature: float, top_p: float, top_k: int, noise: list[float]) -> int | None:
    """The index drawn, or None where rounding decides."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    total = sum(math.exp(x - logits[order[0]]) for x in logits)
    mass, kept = 0.0, []
    for rank, i in enumerate(order):
        mass += math.exp(logits[i] - logits[order[0]]) / total
        if abs(mass - top_p) < CLOSE:
            return None
        if rank == 0 or (mass <= top_p and rank < top_k):
            kept.append(i)
    divisor = max(temperature, 1e-5)
    race = {i: (logits[i] - logits[order[0]]) / divisor - math.log(-math.log(noise[i])) for i in kept}
    first, *others = sorted(race.values(), reverse=True)
    if others and first - others[0] < CLOSE * max(1.0, abs(first)):
        return None
    return max(race, key=race.__getitem__)


@given(
    logits=st.lists(st.floats(-12, 12, width=32), min_size=1, max_size=40),
    temperature=st.just(0.0) | st.floats(0.05, 3.0),
    top_p=st.floats(0.0, 1.2),
    top_k=st.integers(1, 50),
    seed=st.integers(0, 2**63 - 1),
    frame=st.integers(0, 5_000),
)
def test_every_draw_is_the_one_the_page_gives(
    logits: list[float], temperature: float, top_p: float, top_k: int, seed: int, frame: int
) -> None:
    noise = uniforms(torch.tensor([seed]), torch.tensor([frame]), 0, len(logits))
    expected = by_the_page(logits, temperature, top_p, top_k, noise[0].double().tolist())
    assume(expected is not None)
    rows = SamplingRows(torch.tensor([temperature]), torch.tensor([top_p]), torch.tensor([top_k]), torch.tensor([seed]))
    assert int(sample(torch.tensor([logits]), rows, noise)) == expected


@given(logits=st.lists(st.floats(-5, 5, width=32), min_size=2, max_size=20), seed=st.integers(0, 2**32))
def test_at_temperature_zero_the_largest_logit_is_drawn(logits: list[float], seed: int) -> None:
    first, second = sorted(logits, reverse=True)[:2]
    assume(first - second > 1e-3)
    rows = SamplingRows(torch.tensor([0.0]), torch.tensor([1.0]), torch.tensor([30]), torch.tensor([seed]))
    noise = uniforms(rows.seed, torch.tensor([0]), 0, len(logits))
    assert int(sample(torch.tensor([logits]), rows, noise)) == int(np.argmax(logits))
