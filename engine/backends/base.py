"""What a backend must do. `engine.runner.Runner` owns all bookkeeping; a backend owns device state.

Letters: K codebooks, T tokens. A *column* is int32 [1+K]: row 0 the token id, rows 1..K the codes
(zeros where the token is text). Slots are 0..slots-1.

State a backend keeps per slot: KV of the slow transformer, the next input column, the ring of the
last 10 semantic tokens (`previous_tokens`), sampling parameters and the noise key, the frame counter,
decoded codes that wait for the codec, and the codec's streaming state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engine.api import Pcm, Sampling

__all__ = ["Backend", "BackendResult", "VocodeRow"]

Columns = npt.NDArray[np.int32]

_NO_TEXT = range(0)


@dataclass(frozen=True, slots=True)
class VocodeRow:
    """Frames may be named before it is known that the unit ended earlier: those it turns out not to have
    leave no trace in the codec's state, and their samples are zeros."""

    slot: int
    first_frame: int
    frames: int
    reset: bool


@dataclass(frozen=True, slots=True)
class BackendResult:
    ended: list[bool]
    """For each decode row, in order: end-of-speech instead of a frame, now or in an earlier step. A slot that ended
    makes no more frames until it is armed again, however often it is still named: the host learns of it late."""
    pcm: list[Pcm]
    """For each vocode row, in order: int16 [frames * frame_samples]."""
    bad_rows: list[int]
    """Indices of decode rows whose logits were not finite: no frame was made, and the slot counts as ended."""
    decode_s: float
    vocode_s: float
    heard: list[int] = field(default_factory=list)
    """For each decode row, the index in the slot's `text` of the token being spoken, by the model's alignment head; -1:
    none. Empty: the model or this backend has no such head."""


class Backend(Protocol):
    slots: int
    context_tokens: int
    max_vocode_frames: int
    max_pending_frames: int
    steps_in_flight: int

    def prefill(self, slot: int, columns: Columns, start: int) -> None:
        """Prefill thread. Write KV of `columns` [1+K, T] at positions start..start+T-1 of the slot."""
        ...

    def save_prefix(self, slot: int, tokens: int) -> Any:
        """Prefill thread. A read-only copy of the KV at positions 0..tokens-1."""
        ...

    def load_prefix(self, slot: int, prefix: Any) -> None:
        """Prefill thread. Put a saved prefix at positions 0.. of the slot; the prefix stays unchanged."""
        ...

    def arm(self, slot: int, column: Columns, position: int, sampling: Sampling, text: range = _NO_TEXT) -> None:
        """Prefill thread, last. The slot's next decode step feeds `column` [1+K] at `position`. `text`: positions of
        the tokens to be spoken, for `BackendResult.heard`.

        Resets the frame counter, the repetition ring and the pending codes; publishes the slot to the
        decode thread (on CUDA: records the event that the decode stream waits for).
        """
        ...

    def submit(self, decode: list[int], vocode: list[VocodeRow]) -> Any:
        """Decode thread. One frame for each slot of `decode`, then the codec rows. Does not wait."""
        ...

    def is_done(self, ticket: Any) -> bool:
        """Decode thread. Whether `collect` would not wait."""
        ...

    def collect(self, ticket: Any) -> BackendResult:
        """Decode thread. Wait for a submitted step; tickets are collected in order."""
        ...

    def encode(self, pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
        """Clip thread, beside all the others: touches no slot. Mono float32 at the codec's rate -> codes
        int16 [K, T]."""
        ...

    def close(self) -> None: ...
