"""The CUDA backend: captured graphs over fixed buffers, three streams, no host wait between steps.

* *decode* stream: one graph per batch bucket makes a frame for every row; then the flags go to pinned memory. For a
  few rows the graph is one persistent kernel (`engine.cuda.frame_kernel`) that takes nearly the whole device; it is
  used while no prompt is being prefilled, and after the codec's work, since neither could run beside it.
* *codec* stream: after the frames of its step, one graph per (rows, frames) makes samples; they go to pinned memory.
* *prefill* stream: graphs per chunk length write a slot's KV; `arm` publishes the slot by an event that the decode
  stream waits for. Before it touches a slot it waits, on the device, for the steps that still use the slot.

`submit` never waits for the device; `collect` waits for the events of its own step. That a unit ended is therefore
known one step late, and the step in between changes nothing for that slot (csrc/sample.cu).
Against the reference backend: bf16 or FP8 weights, bf16 activations, bf16 or FP8 KV, fp16 codec;
tolerances in tests/gpu.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from engine.api import Pcm, Sampling
from engine.backends.base import BackendResult, Columns, VocodeRow
from engine.codec.codec import Codec
from engine.cuda.buckets import batch_buckets, bucket_for, codec_launches, prefill_chunks
from engine.cuda.codec import CodecChain
from engine.cuda.codec_ops import PLAN_FIELDS
from engine.cuda.codec_weights import CodecWeights
from engine.cuda.device import Device
from engine.cuda.frame import FrameBuffers, SlowBuffers, decode_frame, prefill_rows
from engine.cuda.frame_kernel import FrameKernel, Geometry, PackedWeights
from engine.cuda.slot_state import PENDING_FRAMES, KvPool, SlotState, arm
from engine.cuda.weights import ModelWeights

__all__ = ["CudaBackend"]

STEPS_IN_FLIGHT = 2
RING_STEPS = STEPS_IN_FLIGHT + 2
"""Pinned buffers: a step's are free again once it is collected."""
CODEC_WIDTHS = (1, 2, 4, 8)
MAX_CODEC_CELLS = 256
"""Frames of all rows in one codec launch; more go in several."""
PREFILL_BUCKETS = (16, 32, 64, 128, 256)
PROMPT_RING = 8
"""Prompt chunks that may be on their way to the device."""


@dataclass(frozen=True, slots=True)
class _CodecPart:
    width: int
    rows: list[int]
    """Indices into the plan's vocode rows."""
    first_sample: int
    """Where this launch's samples begin in the pinned buffer."""


@dataclass(frozen=True, slots=True)
class _Ticket:
    ring: int
    rows: int
    vocode: list[VocodeRow]
    parts: list[_CodecPart]
    started: Any
    decoded: Any
    vocode_started: Any
    vocoded: Any


@dataclass(frozen=True, slots=True)
class _Prefix:
    kv: KvPool


class CudaBackend:
    max_vocode_frames = CODEC_WIDTHS[-1]
    max_pending_frames = PENDING_FRAMES - STEPS_IN_FLIGHT
    steps_in_flight = STEPS_IN_FLIGHT

    def __init__(
        self,
        device: Device,
        weights: ModelWeights,
        codec_weights: CodecWeights,
        reference_codec: Codec | None,
        *,
        slots: int,
        context_tokens: int,
        kv_fp8: bool = False,
        packed: tuple[Geometry, PackedWeights] | None = None,
    ) -> None:
        """Allocates everything and captures every graph: nothing is allocated afterwards.

        `reference_codec` encodes clips; without one there is no voice cloning. `packed` enables the persistent kernel;
        `kv_fp8` keeps keys and values in E4M3.
        """
        self.slots, self.context_tokens = slots, context_tokens
        self._device, self._weights, self._codec = device, weights, reference_codec
        config, where = weights.config, device.torch_device
        self._hop = codec_weights.config.hop_samples
        self._state = SlotState.fresh(config, slots, where)
        self._kv = KvPool.zeros(config.slow, slots + 1, context_tokens, where, fp8=kv_fp8)
        self._decode_stream = device.stream(urgent=True)
        self._codec_stream = device.stream(urgent=True)
        self._prefill_stream = device.stream(urgent=False)
        self._buckets = batch_buckets(slots)
        self._frame = FrameBuffers.empty(weights, slots, where)
        prefill = SlowBuffers.empty(
            config.slow, PREFILL_BUCKETS[-1], where, fp8=weights.has_fp8_activations, one_slot=True
        )
        self._codec_cells = min(MAX_CODEC_CELLS, slots * CODEC_WIDTHS[-1])
        self._codec_buckets = {w: batch_buckets(min(slots, self._codec_cells // w)) for w in CODEC_WIDTHS}
        self._chain = CodecChain(
            device.kernels,
            codec_weights,
            self._state,
            max_rows=slots,
            max_frames=CODEC_WIDTHS[-1],
            max_cells=self._codec_cells,
        )
        self._frame_kernel = FrameKernel(*packed, weights, self._kv, self._state) if packed else None
        self._make_transfer_buffers(config.num_codebooks)
        # The rows' slots come first in a chunk, whatever its bucket.
        self._prefill = replace(prefill, row_slot=self._chunk[: PREFILL_BUCKETS[-1]])
        with torch.inference_mode():
            self._capture()
        self._steps = 0
        self._last_prefill: Any = None
        self._prefills = 0
        """Chunks queued so far."""
        self._last_vocode: Any = None
        self._armed: dict[int, tuple[Any, int]] = {}
        """Event of a slot's arming, and how many prefill chunks were queued before it."""
        self._last_use: dict[int, tuple[Any, Any]] = {}

    def _make_transfer_buffers(self, codebooks: int) -> None:
        slots, device = self.slots, self._device
        self._row_slots = device.pinned((RING_STEPS, slots), torch.int32)
        self._flags = device.pinned((RING_STEPS, *self._frame.flags.shape), torch.uint8)
        # A step's launches are padded in rows (by a third at most, or one) and in width (to twice at most).
        plan_rows = 2 * slots + 2 * len(CODEC_WIDTHS)
        self._plans = device.pinned((RING_STEPS, plan_rows, PLAN_FIELDS), torch.int32)
        self._pcm = device.pinned((RING_STEPS, plan_rows * CODEC_WIDTHS[-1] * self._hop), torch.int16)
        self._plan = torch.zeros((slots, PLAN_FIELDS), dtype=torch.int32, device=device.torch_device)
        self._chunk_fields = 3 + codebooks
        """Of a chunk of B rows, one after the other: slots [B], positions [B], columns [B, 1+K]. One copy brings it."""
        length = PREFILL_BUCKETS[-1] * self._chunk_fields
        self._chunk = torch.zeros(length, dtype=torch.int32, device=device.torch_device)
        self._prompts = device.pinned((PROMPT_RING, length), torch.int32)
        self._prompts_sent: list[Any] = [None] * PROMPT_RING
        self._prompt_chunks = 0

    def _capture(self) -> None:
        """Largest first, so that the graphs share one pool of the largest one's size."""
        device, kernels = self._device, self._device.kernels
        self._frame.slow.row_slot.fill_(self._state.scratch_slot)
        self._plan[:, 0] = self._state.scratch_slot
        self._frame_graphs: dict[int, Callable[[], None]] = {}
        for rows in reversed(self._buckets):
            self._frame_graphs[rows] = device.capture(
                self._decode_stream,
                lambda rows=rows: decode_frame(kernels, self._weights, self._kv, self._state, self._frame, rows),
            )
        self._persistent_graphs: dict[int, Callable[[], None]] = {}
        for rows in [b for b in self._frame_kernel.batches if b <= self.slots] if self._frame_kernel else []:
            self._persistent_graphs[rows] = device.capture(
                self._decode_stream, lambda rows=rows: self._run_persistent(rows)
            )
        self._prefill_graphs: dict[int, Callable[[], None]] = {}
        for rows in reversed(PREFILL_BUCKETS):
            with device.on(self._prefill_stream):
                self._chunk.zero_()
                self._chunk[:rows] = self._state.scratch_slot
            self._prefill_graphs[rows] = device.capture(self._prefill_stream, lambda rows=rows: self._run_prefill(rows))
        self._codec_graphs: dict[tuple[int, int], Callable[[], None]] = {}
        for width in reversed(CODEC_WIDTHS):
            for rows in reversed(self._codec_buckets[width]):
                self._codec_graphs[rows, width] = device.capture(
                    self._codec_stream, lambda rows=rows, width=width: self._run_codec(rows, width)
                )

    def _run_prefill(self, rows: int) -> None:
        columns = self._chunk[2 * rows : rows * self._chunk_fields].view(rows, -1)
        positions = self._chunk[rows : 2 * rows]
        prefill_rows(self._device.kernels, self._weights, self._kv, self._prefill, columns, positions, rows)

    def _run_persistent(self, rows: int) -> None:
        assert self._frame_kernel is not None
        self._frame_kernel.run(self._device.kernels, self._frame.slow.row_slot[:rows], self._frame.flags)

    def _run_codec(self, rows: int, width: int) -> None:
        self._chain.run(self._plan[:rows], width)

    # ---- prefill thread ------------------------------------------------------------------------

    @torch.inference_mode()
    def prefill(self, slot: int, columns: Columns, start: int) -> None:
        tokens = columns.shape[1]
        self._wait_for_last_use(slot)
        done = 0
        with self._device.on(self._prefill_stream):
            for count, bucket in prefill_chunks(tokens, PREFILL_BUCKETS):
                self._fill_prompt(slot, columns[:, done : done + count], start + done, bucket)
                self._prefill_graphs[bucket]()
                self._prefills += 1
                self._last_prefill = self._device.record(self._prefill_stream)
                done += count

    def _fill_prompt(self, slot: int, columns: Columns, start: int, bucket: int) -> None:
        """The chunk's rows to the device; rows past its end write to the scratch slot."""
        ring = self._prompt_chunks % PROMPT_RING
        self._prompt_chunks += 1
        if (sent := self._prompts_sent[ring]) is not None:
            self._device.join(sent)
        count, values = columns.shape[1], bucket * self._chunk_fields
        staged = self._prompts[ring, :values]
        slots, positions, rows = np.split(staged.numpy(), (bucket, 2 * bucket))
        slots[:count], slots[count:] = slot, self._state.scratch_slot
        positions[:count], positions[count:] = np.arange(start, start + count), 0
        rows = rows.reshape(bucket, -1)
        rows[:count], rows[count:] = columns.T, 0
        self._chunk[:values].copy_(staged, non_blocking=True)
        self._prompts_sent[ring] = self._device.record(self._prefill_stream)

    def _wait_for_last_use(self, slot: int) -> None:
        for event in self._last_use.pop(slot, ()):
            if event is not None:
                self._device.wait(self._prefill_stream, event)

    @torch.inference_mode()
    def save_prefix(self, slot: int, tokens: int) -> _Prefix:
        with self._device.on(self._prefill_stream):
            return _Prefix(self._kv.copy_prefix(slot, tokens))

    @torch.inference_mode()
    def load_prefix(self, slot: int, prefix: _Prefix) -> None:
        self._wait_for_last_use(slot)
        with self._device.on(self._prefill_stream):
            self._kv.put_prefix(slot, prefix.kv)

    def arm(self, slot: int, column: Columns, position: int, sampling: Sampling, text: range = range(0)) -> None:
        """The fused attention keeps no weights, so which text is being spoken is not reported."""
        self._wait_for_last_use(slot)
        with self._device.on(self._prefill_stream):
            arm(self._device.kernels, self._state, slot, column, position, sampling)
        self._armed[slot] = (self._device.record(self._prefill_stream), self._prefills)

    def encode(self, pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
        if self._codec is None:
            raise RuntimeError("this model has no encoder: voices cannot be cloned")
        return self._codec.encode(pcm)

    # ---- decode thread -------------------------------------------------------------------------

    @torch.inference_mode()
    def submit(self, decode: list[int], vocode: list[VocodeRow]) -> _Ticket:
        ring = self._steps % RING_STEPS
        self._steps += 1
        started = self._device.record(self._decode_stream) if decode else None
        decoded = self._submit_decode(ring, decode) if decode else None
        parts, vocode_started, vocoded = self._submit_codec(ring, vocode, decoded)
        for slot in decode:
            self._last_use[slot] = (decoded, self._last_use.get(slot, (None, None))[1])
        for row in vocode:
            self._last_use[row.slot] = (self._last_use.get(row.slot, (None, None))[0], vocoded)
        return _Ticket(ring, len(decode), vocode, parts, started, decoded, vocode_started, vocoded)

    def _submit_decode(self, ring: int, slots: list[int]) -> Any:
        device = self._device
        waited = 0
        for slot in slots:
            if slot in self._armed:
                armed, chunks = self._armed.pop(slot)
                device.wait(self._decode_stream, armed)
                waited = max(waited, chunks)
        rows, graph = self._choose_graph(len(slots), waited)
        staged = self._row_slots[ring].numpy()
        staged[: len(slots)] = slots
        staged[len(slots) : rows] = self._state.scratch_slot
        with device.on(self._decode_stream):
            self._frame.slow.row_slot[:rows].copy_(self._row_slots[ring, :rows], non_blocking=True)
            graph()
            self._flags[ring].copy_(self._frame.flags, non_blocking=True)
        return device.record(self._decode_stream)

    def _choose_graph(self, count: int, waited: int) -> tuple[int, Callable[[], None]]:
        """(rows, graph) for `count` slots. The step comes after the first `waited` prefill chunks anyway. Before a
        persistent kernel the decode stream waits for the codec."""
        is_behind = self._last_prefill is None or waited == self._prefills or self._device.happened(self._last_prefill)
        fitting = [rows for rows in self._persistent_graphs if rows >= count]
        if not is_behind or not fitting:
            rows = bucket_for(self._buckets, count)
            return rows, self._frame_graphs[rows]
        if self._last_vocode is not None:
            self._device.wait(self._decode_stream, self._last_vocode)
        return min(fitting), self._persistent_graphs[min(fitting)]

    def _submit_codec(self, ring: int, vocode: list[VocodeRow], decoded: Any) -> tuple[list[_CodecPart], Any, Any]:
        if not vocode:
            return [], None, None
        device, stream = self._device, self._codec_stream
        if decoded is not None:
            device.wait(stream, decoded)
        started = device.record(stream)
        parts: list[_CodecPart] = []
        first_row = first_sample = 0
        for width, rows in codec_launches([row.frames for row in vocode], CODEC_WIDTHS, self._codec_cells):
            padded = bucket_for(self._codec_buckets[width], len(rows))
            samples = padded * width * self._hop
            staged = self._plans[ring, first_row : first_row + padded]
            self._fill_plan(staged.numpy(), [vocode[index] for index in rows])
            with device.on(stream):
                self._plan[:padded].copy_(staged, non_blocking=True)
                self._codec_graphs[padded, width]()
                target = self._pcm[ring, first_sample : first_sample + samples]
                target.copy_(self._chain.pcm[:samples], non_blocking=True)
            parts.append(_CodecPart(width, rows, first_sample))
            first_row, first_sample = first_row + padded, first_sample + samples
        self._last_vocode = device.record(stream)
        return parts, started, self._last_vocode

    def _fill_plan(self, plan: npt.NDArray[np.int32], rows: list[VocodeRow]) -> None:
        plan[:] = (self._state.scratch_slot, 0, 0, 0)
        for place, row in enumerate(rows):
            plan[place] = (row.slot, row.first_frame, row.frames, row.reset)

    def is_done(self, ticket: _Ticket) -> bool:
        last = ticket.decoded if ticket.vocoded is None else ticket.vocoded
        return last is None or self._device.happened(last)

    def collect(self, ticket: _Ticket) -> BackendResult:
        ended, bad_rows, decode_s = [], [], 0.0
        if ticket.decoded is not None:
            self._device.join(ticket.decoded)
            flags = self._flags[ticket.ring].numpy()[:, : ticket.rows]
            ended = [bool(flag) for flag in flags[0]]
            bad_rows = [int(row) for row in np.flatnonzero(flags[1] == 0)]
            decode_s = self._device.seconds_between(ticket.started, ticket.decoded)
        pcm, vocode_s = self._collect_pcm(ticket)
        return BackendResult(ended, pcm, bad_rows, decode_s, vocode_s)

    def _collect_pcm(self, ticket: _Ticket) -> tuple[list[Pcm], float]:
        if ticket.vocoded is None:
            return [], 0.0
        self._device.join(ticket.vocoded)
        samples = self._pcm[ticket.ring].numpy()
        made: dict[int, Pcm] = {}
        for part in ticket.parts:
            for place, index in enumerate(part.rows):
                first = part.first_sample + place * part.width * self._hop
                made[index] = samples[first : first + ticket.vocode[index].frames * self._hop].copy()
        pcm = [made[index] for index in range(len(ticket.vocode))]
        return pcm, self._device.seconds_between(ticket.vocode_started, ticket.vocoded)

    def codes(self, slot: int) -> npt.NDArray[np.int64]:
        """[K, F]: the frames of the slot's current unit, at most PENDING_FRAMES, for gates and tests. Waits."""
        frames = int(self._state.frames[slot])
        assert frames <= PENDING_FRAMES, f"slot {slot} has {frames} frames; the ring holds {PENDING_FRAMES}"
        return self._state.codes[slot, :frames].T.long().cpu().numpy()

    def close(self) -> None:
        self._frame_graphs.clear()
        self._persistent_graphs.clear()
        self._prefill_graphs.clear()
        self._codec_graphs.clear()
