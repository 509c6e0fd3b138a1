"""Predictors of quality and of who speaks. Each takes float32 [N] at 16 kHz.

DistillMOS (MIT) and DNSMOS (MIT) predict opinion scores from 1 to 5; Resemblyzer (Apache-2.0) embeds speakers. Their
packages carry the weights; see the extra `evaluate`.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["DistillMos", "Dnsmos", "Speakers"]

Sound = npt.NDArray[np.float32]


class DistillMos:
    """Finds roughness and artefacts; blind to repetition and to what is said."""

    def __init__(self) -> None:
        # Only the package's command line needs torchaudio, but its module imports it.
        sys.modules.setdefault("torchaudio", types.ModuleType("torchaudio"))
        from distillmos import ConvTransformerSQAModel

        self._model: Any = ConvTransformerSQAModel().eval()

    def score(self, sound: Sound) -> float:
        with torch.inference_mode():
            return float(self._model(torch.from_numpy(sound)[None]))


class Dnsmos:
    """Finds noise; flat between good voices."""

    def __init__(self) -> None:
        from speechmos import dnsmos

        self._run: Any = dnsmos.run

    def score(self, sound: Sound) -> float:
        """The overall score (OVRL)."""
        return float(self._run(sound.clip(-1, 1), sr=16_000)["ovrl_mos"])


class Speakers:
    """Unit vectors; voices of one speaker have a cosine of about 0.94, of two about 0.61."""

    def __init__(self) -> None:
        from resemblyzer import VoiceEncoder

        self._encoder: Any = VoiceEncoder("cpu", verbose=False)

    def embed(self, sound: Sound) -> npt.NDArray[np.float32]:
        """float32 [256]."""
        from resemblyzer import preprocess_wav

        return np.asarray(self._encoder.embed_utterance(preprocess_wav(sound)), np.float32)
