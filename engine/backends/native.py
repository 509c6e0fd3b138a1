"""The fast CPU backend: the C++ library in csrc/cpu behind the backend contract.

Two single-thread executors play the part of device streams: *AR* makes frames, *codec* turns them into sound, and the
codec of step n runs beside the AR of step n+1. Weights are fp16 (exact for a checkpoint stored in fp16), sums are
fp32 in an order that depends on the layer alone: a row's result is the same to the last bit whatever its batch mates,
and PCM is the same to the last bit whatever the chunking. Against the reference backend it differs by rounding only.
"""

from __future__ import annotations

import ctypes
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.api import Pcm, Sampling
from engine.backends.base import BackendResult, Columns, VocodeRow
from engine.backends.native_layout import CTensor, codec_struct, list_tensors, model_struct
from engine.codec.codec import Codec
from engine.model.dual_ar import DualAR
from engine.native_build import CompilerMissing, build_library

__all__ = ["CompilerMissing", "NativeBackend"]

log = logging.getLogger(__name__)

PENDING_FRAMES = 64
QUIET_S = 0.1
"""Without a step for so long nobody is speaking, and a prefill may use a second CPU."""

FP16_EXACT = 1e-7
"""Weights that change by more than this in fp16 are worth a warning."""


_Decoded = tuple[list[bool], list[int], list[int], float]
"""(ended per row, rows whose logits were not finite, text token heard per row, seconds)"""


@dataclass(frozen=True, slots=True)
class _Ticket:
    decoded: Future[_Decoded]
    vocoded: Future[tuple[list[Pcm], float]]


@dataclass(frozen=True, slots=True)
class _Prefix:
    tokens: int
    kv: npt.NDArray[np.float32]


class NativeBackend:
    max_vocode_frames = 4
    """A core needs 4 ms a frame, and whoever comes meanwhile waits for the call under way."""
    max_pending_frames = PENDING_FRAMES
    steps_in_flight = 2

    def __init__(self, model: DualAR, codec: Codec, *, slots: int, context_tokens: int) -> None:
        """Raises CompilerMissing, BuildFailed; ValueError for a model that the library cannot run."""
        self.slots, self.context_tokens = slots, context_tokens
        self._codec = codec
        self._hop = codec.config.hop_samples
        self._library = _load(str(build_library("cpu/api.cpp")))
        # The library reads some of these for as long as it lives.
        self._tensors = list_tensors(model, codec, context_tokens)
        self._model = self._create(model)
        if (rounding := self._library.kf_rounding(self._model)) > FP16_EXACT:
            log.warning("the checkpoint is not fp16: weights were rounded by up to %.2g", rounding)
        self._last_submit_s = float("-inf")
        self._ar = ThreadPoolExecutor(1, "kingfisher-ar")
        self._codec_stream = ThreadPoolExecutor(1, "kingfisher-codec")

    def _create(self, model: DualAR) -> ctypes.c_void_p:
        config = model_struct(model, self.slots, self.context_tokens, PENDING_FRAMES)
        tensors = (CTensor * len(self._tensors))(*(CTensor(t.data_ptr(), t.numel()) for t in self._tensors))
        error = ctypes.create_string_buffer(500)
        codec = codec_struct(self._codec.config)
        handle = self._library.kf_create(
            ctypes.byref(config), ctypes.byref(codec), tensors, len(tensors), error, len(error)
        )
        if not handle:
            raise ValueError(f"the native library refused the model: {error.value.decode()}")
        return ctypes.c_void_p(handle)

    # ---- prefill thread ------------------------------------------------------------------------

    def prefill(self, slot: int, columns: Columns, start: int) -> None:
        tokens = columns.shape[1]
        if tokens:
            flat = np.ascontiguousarray(columns, np.int32)
            is_quiet = time.monotonic() - self._last_submit_s > QUIET_S
            self._library.kf_prefill(self._model, slot, _pointer(flat), tokens, start, int(is_quiet))

    def save_prefix(self, slot: int, tokens: int) -> _Prefix:
        kv = np.empty(self._library.kf_prefix_floats(self._model, tokens), np.float32)
        self._library.kf_save_prefix(self._model, slot, tokens, _pointer(kv))
        kv.flags.writeable = False
        return _Prefix(tokens, kv)

    def load_prefix(self, slot: int, prefix: _Prefix) -> None:
        self._library.kf_load_prefix(self._model, slot, prefix.tokens, _pointer(prefix.kv))

    def arm(self, slot: int, column: Columns, position: int, sampling: Sampling, text: range = range(0)) -> None:
        flat = np.ascontiguousarray(column, np.int32)
        self._library.kf_arm(
            self._model,
            slot,
            _pointer(flat),
            position,
            sampling.temperature,
            sampling.top_p,
            sampling.top_k,
            sampling.seed,
            text.start,
            len(text),
        )

    def encode(self, pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
        return self._codec.encode(pcm)

    # ---- decode thread -------------------------------------------------------------------------

    def submit(self, decode: list[int], vocode: list[VocodeRow]) -> _Ticket:
        self._last_submit_s = time.monotonic()
        decoded = self._ar.submit(self._decode, decode)
        return _Ticket(decoded, self._codec_stream.submit(self._vocode, vocode, decoded))

    def is_done(self, ticket: _Ticket) -> bool:
        return ticket.vocoded.done()  # it waits for the decoded ones itself

    def collect(self, ticket: _Ticket) -> BackendResult:
        ended, bad_rows, heard, decode_s = ticket.decoded.result()
        pcm, vocode_s = ticket.vocoded.result()
        return BackendResult(ended, pcm, bad_rows, decode_s, vocode_s, heard)

    def close(self) -> None:
        self._ar.shutdown()
        self._codec_stream.shutdown()
        if self._model:
            self._library.kf_destroy(self._model)
            self._model = ctypes.c_void_p()

    def _decode(self, slots: list[int]) -> _Decoded:
        """On the AR stream."""
        began = time.perf_counter()
        if not slots:
            return [], [], [], 0.0
        rows = np.asarray(slots, np.int32)
        ended, finite = np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.uint8)
        heard = np.full(len(rows), -1, np.int32)
        self._library.kf_decode(
            self._model, _pointer(rows), len(rows), _pointer(ended), _pointer(finite), _pointer(heard)
        )
        bad_rows = [int(i) for i in np.flatnonzero(finite == 0)]
        return [bool(end) for end in ended], bad_rows, heard.tolist(), time.perf_counter() - began

    def _vocode(self, rows: list[VocodeRow], decoded: Future[_Decoded]) -> tuple[list[Pcm], float]:
        """On the codec stream, after the frames of the same step are there."""
        decoded.result()
        began = time.perf_counter()
        made = []
        for row in rows:
            pcm = np.empty(row.frames * self._hop, np.int16)
            self._library.kf_vocode(self._model, row.slot, row.first_frame, row.frames, int(row.reset), _pointer(pcm))
            made.append(pcm)
        return made, time.perf_counter() - began


def _pointer(array: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _load(path: str) -> ctypes.CDLL:
    """The library with its signatures; calls release the interpreter lock."""
    library = ctypes.CDLL(path)
    pointer, integer, real = ctypes.c_void_p, ctypes.c_int32, ctypes.c_float
    signatures = {
        "kf_create": (pointer, [pointer, pointer, pointer, integer, pointer, integer]),
        "kf_destroy": (None, [pointer]),
        "kf_rounding": (real, [pointer]),
        "kf_prefill": (None, [pointer, integer, pointer, integer, integer, integer]),
        "kf_prefix_floats": (ctypes.c_int64, [pointer, integer]),
        "kf_save_prefix": (None, [pointer, integer, integer, pointer]),
        "kf_load_prefix": (None, [pointer, integer, integer, pointer]),
        "kf_arm": (None, [pointer, integer, pointer, integer, real, real, integer, ctypes.c_uint64, integer, integer]),
        "kf_decode": (None, [pointer, pointer, integer, pointer, pointer, pointer]),
        "kf_vocode": (None, [pointer, integer, integer, integer, integer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
