"""The FP8 schemes by name: how a model's weights are stored, and how the inputs of its products are rounded.

A checkpoint stores weights, so two schemes that differ in activations alone share a file.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import FP8_SCHEMES, ConfigError
from engine.quant.formats import GROUPS_128, MX_32, PER_ROW, PER_TENSOR, SQUARES_128, Grouping

__all__ = ["SCHEMES", "Scheme", "file_scheme"]


@dataclass(frozen=True, slots=True)
class Scheme:
    weights: Grouping
    activations: Grouping | None
    """None: they stay in 16 bits."""


SCHEMES = {
    "tensor": Scheme(PER_TENSOR, PER_TENSOR),
    "channels": Scheme(PER_ROW, PER_ROW),
    "w8a16": Scheme(PER_ROW, None),
    "bsgemm": Scheme(SQUARES_128, GROUPS_128),
    "mxfp8": Scheme(MX_32, MX_32),
}


def file_scheme(name: str) -> Scheme:
    """Raises ConfigError for a name that no checkpoint has."""
    if name not in FP8_SCHEMES:
        raise ConfigError(f"the FP8 scheme {name!r} is not known; known are {', '.join(FP8_SCHEMES)}")
    return SCHEMES[name]
