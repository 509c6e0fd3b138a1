"""`kingfisher gate performance`: decode speed against the committed baseline.

The model is `s2-pro-random`: full size, seeded random weights, FP8. Every batch of the baseline is measured; the gate
is on some of them, since the others say the same.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["BASELINE", "CONTEXT_TOKENS", "Verdict", "judge", "measure_all", "read_baseline"]

BASELINE = Path(__file__).parents[2] / "loadtest" / "baselines" / "h200-s2pro.json"
GATED = ("1", "16", "64")
TOLERANCE = 0.05
CONTEXT_TOKENS = 550
STEPS, REPEATS = 100, 3


@dataclass(frozen=True, slots=True)
class Verdict:
    batch: str
    frames_per_s: float
    baseline: float
    is_gated: bool

    @property
    def ratio(self) -> float:
        return self.frames_per_s / self.baseline

    @property
    def has_passed(self) -> bool:
        return not self.is_gated or self.ratio >= 1 - TOLERANCE


def read_baseline(path: Path = BASELINE) -> dict[str, float]:
    """Frames/s by batch. Raises ValueError for a file that is none."""
    try:
        rates = {batch: float(rate) for batch, rate in json.loads(path.read_text())["decode_frames_per_s"].items()}
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is no baseline: {error}") from None
    if missing := set(GATED) - set(rates):
        raise ValueError(f"{path} lacks the batches {', '.join(sorted(missing, key=int))}")
    return rates


def judge(measured: dict[str, float], baseline: dict[str, float]) -> list[Verdict]:
    """One verdict for each batch of the baseline. Faster than the baseline always passes."""
    return [Verdict(batch, measured[batch], rate, batch in GATED) for batch, rate in baseline.items()]


def measure_all(batches: list[int], *, with_codec: bool = False) -> dict[str, Any]:
    """Needs a GPU. Frames/s by batch: the median of repeats, and all of them."""
    import torch

    from engine.cuda.load import make_random_backend
    from engine.cuda.random_model import S2_PRO
    from engine.gate.decode_speed import WINDOW_STEPS, measure, prepare

    backend = make_random_backend(slots=max(batches), context_tokens=CONTEXT_TOKENS + 2 * STEPS + 100, fp8=True)
    codebooks = S2_PRO.num_codebooks
    runs: dict[str, list[float]] = {}
    codec_runs: dict[str, list[float]] = {}
    for batch in batches:
        prepare(backend, batch, CONTEXT_TOKENS, codebooks)
        measure(backend, batch, 2 * WINDOW_STEPS)
        for _ in range(REPEATS):
            prepare(backend, batch, CONTEXT_TOKENS, codebooks)
            runs.setdefault(str(batch), []).append(measure(backend, batch, STEPS).frames_per_s)
            if with_codec:
                prepare(backend, batch, CONTEXT_TOKENS, codebooks)
                codec_runs.setdefault(str(batch), []).append(measure(backend, batch, STEPS, codec_every=2).frames_per_s)
    backend.close()
    return {
        "machine": f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}",
        "model": "s2-pro-random (seeded random weights of S2-Pro's shape), FP8",
        "context_tokens": CONTEXT_TOKENS,
        "decode_frames_per_s": {batch: round(statistics.median(all_), 1) for batch, all_ in runs.items()},
        "runs": {batch: [round(rate, 1) for rate in all_] for batch, all_ in runs.items()},
        "with_codec_frames_per_s": {b: round(statistics.median(all_), 1) for b, all_ in codec_runs.items()},
    }
