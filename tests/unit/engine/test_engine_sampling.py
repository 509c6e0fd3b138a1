"""The sampler: order of filters, the crossing token, keyed noise, repetition-aware sampling."""

from __future__ import annotations

import pytest
import torch

from engine.model.sampling import (
    RAS_WINDOW,
    SamplingRows,
    is_repeated,
    philox,
    remember,
    sample,
    uniforms,
)


def rows(temperature: float, top_p: float, top_k: int = 30, seed: int = 0, batch: int = 1) -> SamplingRows:
    return SamplingRows(
        torch.full((batch,), temperature),
        torch.full((batch,), top_p),
        torch.full((batch,), top_k),
        torch.full((batch,), seed),
    )


def drawn(logits: torch.Tensor, parameters: SamplingRows, count: int) -> set[int]:
    frames = torch.arange(count)
    many = SamplingRows(*(p.expand(count) for p in parameters))
    noise = uniforms(many.seed, frames, 0, logits.shape[-1])
    return set(sample(logits.expand(count, -1), many, noise).tolist())


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_philox_gives_the_published_vectors(word: int, expected: tuple[int, ...]) -> None:
    w = torch.tensor([word])
    assert tuple(int(x) for x in philox((w, w, w, w), (w, w))) == expected


def test_uniforms_lie_strictly_inside_zero_and_one_and_depend_on_every_key() -> None:
    base = uniforms(torch.tensor([3]), torch.tensor([5]), 1, 4097)
    assert float(base.min()) > 0
    assert float(base.max()) < 1
    assert abs(float(base.mean()) - 0.5) < 0.02
    for seed, frame, stream in ((4, 5, 1), (3, 6, 1), (3, 5, 2), (3 + (1 << 32), 5, 1)):
        other = uniforms(torch.tensor([seed]), torch.tensor([frame]), stream, 4097)
        assert float((other == base).float().mean()) < 0.01


def test_the_token_that_crosses_top_p_is_dropped_and_rank_zero_stays() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert drawn(logits, rows(1.0, 0.8001), 400) == {0, 1}
    assert drawn(logits, rows(1.0, 0.79), 400) == {0}
    assert drawn(logits, rows(1.0, 0.1), 400) == {0}


def test_top_k_counts_ranks_after_sorting() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
    assert drawn(logits, rows(1.0, 1.0, top_k=2), 400) == {1, 2}


def test_filters_look_at_temperature_one_whatever_the_temperature() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    assert drawn(logits, rows(5.0, 0.81), 600) == {0, 1}
    assert drawn(logits, rows(0.0, 1.1), 50) == {0}


def test_draws_follow_the_distribution() -> None:
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05])
    count = 20_000
    many = rows(1.0, 1.1, batch=count)
    noise = uniforms(many.seed, torch.arange(count), 0, 4)
    picked = sample(weights.log().expand(count, -1), many, noise).bincount(minlength=4) / count
    assert float((picked - weights).abs().max()) < 0.015


def test_a_row_draws_the_same_whatever_its_batch_mates() -> None:
    logits = torch.randn(5, 300, generator=torch.Generator().manual_seed(1))
    mixed = SamplingRows(
        torch.tensor([0.7, 1.0, 0.1, 2.0, 0.5]),
        torch.tensor([0.8, 0.9, 0.5, 1.0, 0.7]),
        torch.tensor([30, 5, 1, 300, 30]),
        torch.arange(5),
    )
    frames = torch.arange(5)
    together = sample(logits, mixed, uniforms(mixed.seed, frames, 0, 300))
    for i in range(5):
        one = SamplingRows(*(p[i : i + 1] for p in mixed))
        alone = sample(logits[i : i + 1], one, uniforms(one.seed, frames[i : i + 1], 0, 300))
        assert int(alone) == int(together[i])


def test_the_window_remembers_ten_columns_and_forgets_the_oldest() -> None:
    window = torch.zeros((1, 3, RAS_WINDOW), dtype=torch.int32)
    assert not bool(is_repeated(window, torch.tensor([7], dtype=torch.int32)))
    for token in range(100, 111):
        window = remember(window, torch.tensor([[token, 1, 2]], dtype=torch.int32))
    assert not bool(is_repeated(window, torch.tensor([100], dtype=torch.int32)))
    assert bool(is_repeated(window, torch.tensor([101], dtype=torch.int32)))


@pytest.mark.parametrize(
    ("previous", "column"),
    [
        (torch.zeros((1, 3, RAS_WINDOW)), torch.zeros((1, 3), dtype=torch.int32)),
        (torch.zeros((3, RAS_WINDOW), dtype=torch.int32), torch.zeros((1, 3), dtype=torch.int32)),
        (torch.zeros((1, 3, 4), dtype=torch.int32), torch.zeros((1, 3), dtype=torch.int32)),
        (torch.zeros((2, 3, RAS_WINDOW), dtype=torch.int32), torch.zeros((1, 3), dtype=torch.int32)),
        (torch.zeros((1, 3, RAS_WINDOW), dtype=torch.int32), torch.zeros((1, 2), dtype=torch.int32)),
        (torch.zeros((1, 3, RAS_WINDOW), dtype=torch.int32), torch.zeros((1, 3), dtype=torch.int64)),
    ],
)
def test_a_wrong_shape_or_dtype_is_an_error_never_a_broadcast(previous: torch.Tensor, column: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="tokens"):
        remember(previous, column)
