"""The reference backend: plain fp32 torch on any device. It is the specification, not the product.

One row at a time and one codec row at a time, so a row's result cannot depend on its batch mates; `submit` computes
at once, since there is no device to run ahead of. Where a fast backend differs from this one, the fast one is wrong.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.api import Sampling
from engine.backends.base import BackendResult, Columns, VocodeRow
from engine.codec.codec import Codec, to_int16
from engine.model.dual_ar import DualAR, KvCache
from engine.model.layers import Attention
from engine.model.sampling import RAS_WINDOW, SamplingRows, is_repeated, remember, sample, uniforms

__all__ = ["ReferenceBackend"]


@dataclass(slots=True)
class _Slot:
    """What the next decode step of a slot needs, beside its KV."""

    column: Tensor
    """int64 [1+K], the next input."""
    position: int
    sampling: SamplingRows
    previous: Tensor
    """int32 [1, K+1, W], the window of repetition-aware sampling."""
    text: range
    """Positions of the unit's text."""
    heard: int = -1
    """The token of the text that the last frame speaks."""
    frame: int = 0
    has_ended: bool = False
    codes: list[Tensor] = field(default_factory=list)
    """Frames of the current unit, int64 [K] each."""


class ReferenceBackend:
    max_vocode_frames = 8
    steps_in_flight = 1
    max_pending_frames = 1 << 20  # frames are kept in a list: no ring to overrun

    def __init__(self, model: DualAR, codec: Codec, *, slots: int, context_tokens: int, device: str = "cpu") -> None:
        self.slots, self.context_tokens = slots, context_tokens
        self._device = torch.device(device)
        self._model = model.to(self._device).eval().requires_grad_(False)
        self._codec = codec
        self._kv = KvCache.zeros(model.config.slow, slots, context_tokens, device=self._device)
        self._codec_state = codec.new_state(slots)
        self._slots: dict[int, _Slot] = {}
        self._queries: dict[int, Tensor] = {}
        if (watched := model.config.alignment) is not None:
            self._model.layers[watched.layer].attention.register_forward_hook(self._watch)

    # ---- prefill thread ------------------------------------------------------------------------

    @torch.inference_mode()
    def prefill(self, slot: int, columns: Columns, start: int) -> None:
        if columns.shape[1]:
            self._model.slow(self._columns(columns), start, self._kv.slot(slot))

    @torch.inference_mode()
    def save_prefix(self, slot: int, tokens: int) -> KvCache:
        kv = self._kv.slot(slot)
        return KvCache(kv.k[:, :tokens].clone(), kv.v[:, :tokens].clone())

    @torch.inference_mode()
    def load_prefix(self, slot: int, prefix: KvCache) -> None:
        kv, tokens = self._kv.slot(slot), prefix.k.shape[1]
        kv.k[:, :tokens] = prefix.k
        kv.v[:, :tokens] = prefix.v

    def arm(self, slot: int, column: Columns, position: int, sampling: Sampling, text: range = range(0)) -> None:
        rows = SamplingRows(
            temperature=torch.tensor([sampling.temperature], device=self._device),
            top_p=torch.tensor([sampling.top_p], device=self._device),
            top_k=torch.tensor([sampling.top_k], device=self._device),
            seed=torch.tensor([sampling.seed], device=self._device),
        )
        window = torch.zeros((1, len(column), RAS_WINDOW), dtype=torch.int32, device=self._device)
        self._slots[slot] = _Slot(self._columns(column), position, rows, window, text)

    @torch.inference_mode()
    def encode(self, pcm: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
        return self._codec.encode(pcm)

    # ---- decode thread -------------------------------------------------------------------------

    @torch.inference_mode()
    def submit(self, decode: list[int], vocode: list[VocodeRow]) -> BackendResult:
        began = time.perf_counter()
        ended: list[bool] = []
        bad_rows: list[int] = []
        for index, slot in enumerate(decode):
            end, finite = self._decode_frame(slot)
            ended.append(end)
            if not finite:
                bad_rows.append(index)
        decoded = time.perf_counter()
        pcm = [self._vocode(row) for row in vocode]
        heard = [] if self._model.config.alignment is None else [self._slots[slot].heard for slot in decode]
        return BackendResult(ended, pcm, bad_rows, decoded - began, time.perf_counter() - decoded, heard)

    def is_done(self, ticket: BackendResult) -> bool:
        return True

    def collect(self, ticket: BackendResult) -> BackendResult:
        return ticket

    def codes(self, slot: int) -> npt.NDArray[np.int64]:
        """[K, F]: the frames of the slot's current unit, for gates and tests."""
        frames = self._slots[slot].codes
        k = self._model.config.num_codebooks
        return np.zeros((k, 0), np.int64) if not frames else torch.stack(frames, dim=1).cpu().numpy()

    def close(self) -> None:
        self._slots.clear()

    def _decode_frame(self, slot: int) -> tuple[bool, bool]:
        """One frame of one slot -> (ended, logits were finite). A slot that ended does nothing more."""
        s, model = self._slots[slot], self._model
        if s.has_ended:
            return True, True
        hidden, fast_input = model.slow(s.column[:, None], s.position, self._kv.slot(slot))
        s.heard = self._hear(slot, s)
        logits = model.semantic_logits(hidden)
        s.position += 1
        is_finite = bool(logits.isfinite().all())
        token = self._draw_semantic(s, logits) if is_finite else model.config.codebook_size
        if token == model.config.codebook_size:
            s.has_ended = True
            return True, is_finite
        codes = self._draw_residuals(s, fast_input[-1], token)
        if codes is None:
            s.has_ended = True
            return True, False
        column = torch.cat([codes.new_tensor([model.semantic_begin + token]), codes])
        if s.frame > 0:
            s.previous = remember(s.previous, column.int()[None])
        s.column = column
        s.codes.append(codes)
        s.frame += 1
        return False, True

    def _hear(self, slot: int, s: _Slot) -> int:
        """The token of the text at which the alignment head looks most in the step under way; -1: none."""
        watched = self._model.config.alignment
        if watched is None or not s.text:
            return -1
        group = self._model.config.slow.heads // self._model.config.slow.kv_heads
        keys = self._kv.slot(slot).layer(watched.layer)[0]
        query = self._queries[keys.data_ptr()][0, watched.head]
        return int((keys[s.text.start : s.text.stop, watched.head // group] @ query).argmax())

    def _watch(
        self, attention: Attention, inputs: tuple[Tensor, Tensor, int, tuple[Tensor, Tensor]], _: Tensor
    ) -> None:
        """Forward hook of the alignment head's layer: keep the last position's queries [1, H, D], by the slot's keys,
        as another slot may be prefilled at the same time."""
        x, table, _start, (keys, _values) = inputs
        self._queries[keys.data_ptr()] = attention.project(x[-1:], table[-1:])[0]

    def _draw_semantic(self, s: _Slot, logits: Tensor) -> int:
        """Index into [semantic codes…, im_end], by repetition-aware sampling."""
        model = self._model
        drawn = sample(logits, s.sampling, self._noise(s, 0, logits.shape[1]))
        is_semantic = drawn < model.config.codebook_size
        token_id = (drawn + model.semantic_begin).int()
        if s.frame > 0 and bool(is_semantic & is_repeated(s.previous, token_id)):
            noise = self._noise(s, model.config.num_codebooks, logits.shape[1])
            drawn = sample(logits, s.sampling.fallback(), noise)
        return int(drawn)

    def _draw_residuals(self, s: _Slot, fast_input: Tensor, token: int) -> Tensor | None:
        """Codes int64 [K] of the frame, or None for logits that are not finite. The slow output and the semantic code
        enter in one pass."""
        model, config = self._model, self._model.config
        cache = KvCache.zeros(config.fast, config.num_codebooks, device=self._device)
        embeddings = model.fast_embeddings.weight
        codes = [torch.tensor(token, device=self._device)]
        x = torch.stack([model.project(fast_input), embeddings[token]])
        for codebook in range(1, config.num_codebooks):
            logits = model.fast(x, 0 if codebook == 1 else codebook, cache)[-1:]
            if not logits.isfinite().all():
                return None
            logits[:, config.residual_codebook_size :] = float("-inf")
            code = sample(logits, s.sampling, self._noise(s, codebook, logits.shape[1]))[0]
            codes.append(code)
            x = embeddings[code][None]
        return torch.stack(codes)

    def _noise(self, s: _Slot, stream: int, count: int) -> Tensor:
        frame = torch.tensor([s.frame], device=self._device)
        return uniforms(s.sampling.seed, frame, stream, count)

    def _vocode(self, row: VocodeRow) -> npt.NDArray[np.int16]:
        if row.reset:
            self._codec_state.reset(row.slot)
        frames = self._slots[row.slot].codes[row.first_frame : row.first_frame + row.frames]
        pcm = np.zeros(row.frames * self._codec.config.hop_samples, np.int16)
        if frames:
            samples = self._codec.decode(self._codec_state, row.slot, torch.stack(frames, dim=1))
            pcm[: len(samples)] = to_int16(samples).cpu().numpy()
        return pcm

    def _columns(self, columns: Columns) -> Tensor:
        return torch.from_numpy(columns.astype(np.int64)).to(self._device)
