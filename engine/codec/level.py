"""One loudness for all reference clips: a voice speaks about as loud as its reference, and clips come at any level."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["SPEECH_RMS", "level_speech", "speech_rms"]

SPEECH_RMS = 0.05
"""Of the windows in which somebody speaks (-26 dB of full scale): where the bundled voices lie."""
_WINDOW_S = 0.02
_SPEECH_DB = 30.0
"""Windows so far under the loudest one are pauses."""
_SILENCE_RMS = 1e-4
"""A clip under -80 dB of full scale holds no speech to bring up, but noise."""


def level_speech(pcm: npt.NDArray[np.float32], rate_hz: int) -> npt.NDArray[np.float32]:
    """float32 [N] in and out, at SPEECH_RMS. Near silence stays as it is, and no sample is brought past full scale."""
    rms = speech_rms(pcm, rate_hz)
    if rms < _SILENCE_RMS:
        return pcm
    gain = min(SPEECH_RMS / rms, 1.0 / float(np.abs(pcm).max()))
    return pcm * np.float32(gain)


def speech_rms(pcm: npt.NDArray[np.float32], rate_hz: int) -> float:
    """Of the windows of 20 ms in float32 [N] that are no pauses; 0 for a clip shorter than one."""
    window = int(_WINDOW_S * rate_hz)
    power = np.square(pcm[: len(pcm) // window * window].reshape(-1, window), dtype=np.float64).mean(axis=1)
    if not len(power):
        return 0.0
    return float(np.sqrt(power[power >= power.max() * 10 ** (-_SPEECH_DB / 10)].mean()))
