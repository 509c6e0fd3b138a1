"""When turns begin."""

from __future__ import annotations

import itertools
import statistics

import pytest

from loadtest.arrivals import burst, poisson


def test_arrivals_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    assert poisson(5, 20, 1) == poisson(5, 20, 1)
    assert poisson(5, 20, 1) != poisson(5, 20, 2)


def test_a_poisson_process_has_its_rate_and_its_gaps_vary_as_much_as_they_are_long() -> None:
    offsets = poisson(50, 200, 3)
    gaps = [b - a for a, b in itertools.pairwise(offsets)]
    assert offsets == sorted(offsets)
    assert offsets[0] > 0
    assert offsets[-1] < 200
    assert len(offsets) / 200 == pytest.approx(50, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)


def test_a_burst_has_all_its_turns_within_its_time() -> None:
    offsets = burst(40, 0.1, 1)
    assert len(offsets) == 40
    assert offsets == sorted(offsets)
    assert offsets[0] >= 0
    assert offsets[-1] <= 0.1
