"""The FP8 form of a model that this backend runs, and that `kingfisher convert` writes: one form, whoever makes it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from engine.config import ModelConfig
from engine.cuda.frame_kernel import Geometry
from engine.quant.model import QuantisedModel
from engine.quant.schemes import file_scheme

__all__ = ["DECODE_SCHEME", "quantised_form"]

DECODE_SCHEME = "channels"
"""What a checkpoint in plain floats is quantised to when it is loaded (loadtest/LOG.md has the comparison)."""


def quantised_form(config: ModelConfig, tensors: Mapping[str, Tensor], scheme: str) -> QuantisedModel:
    """From raw names, any float dtype, any device. Raises ConfigError for a scheme that is not known.

    Norm weights are folded into the products where the persistent kernel runs the model, since it applies none: so
    small and large batches run the same numbers. It costs activations nothing: without norm weights no input exceeds
    sqrt(C) times its rms, 51 in S2-Pro, so with a row's amax at 448 all above a 560th of the rms are normal numbers.
    """
    folds = scheme == DECODE_SCHEME and Geometry(config).fits()
    return QuantisedModel(tensors, file_scheme(scheme).weights, fold_norms=folds)
