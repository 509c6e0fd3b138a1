"""The persistent frame kernel (csrc/frame.cu): its geometry, its packed weights, its launch.

Weights are packed per block in the order the block uses them. A chunk is a few output rows times all of K (or a part of
it), laid out so that a lane's fragments stand together, and ends with the rows' scales. The kernel applies no RMSNorm
weights: they must be folded into the products (`engine.quant.model`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from ctypes import Structure, c_float, c_int, c_longlong, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import ConfigError, ModelConfig, StackConfig
from engine.cuda.kernels import Kernels, KernelSpec
from engine.cuda.ops import LOG2_E, expect, kv_define, pointer
from engine.cuda.slot_state import _SCRATCH_STRUCT_BYTES, KvPool, SlotState, _SlotState, _state_struct
from engine.cuda.weights import ModelWeights
from engine.quant.formats import PER_ROW, Quantised

__all__ = ["FrameKernel", "Geometry", "PackedWeights", "ProductPlan", "pack_product"]

MAX_CHUNK_ROWS = 8
SCALES_BYTES = 32
SLOTS = 6
PRODUCER_THREADS = 128
SHARED_LIMIT_BYTES = 227 * 1024
MAX_STAGES = 12


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """How one product [N, K] is cut: `rows` outputs per block, chunks of `chunk_rows` rows and K / parts columns."""

    rows: int
    chunk_rows: int
    k: int
    parts: int
    half: bool

    @property
    def weight_bytes(self) -> int:
        return self.chunk_rows * self.k // self.parts * (2 if self.half else 1)

    @property
    def chunk_bytes(self) -> int:
        return self.weight_bytes + SCALES_BYTES

    @property
    def block_bytes(self) -> int:
        return self.rows // self.chunk_rows * self.parts * self.chunk_bytes

    def steps(self, warps: int) -> int:
        return self.k // (16 * warps * self.parts)


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of the kernel for one model; `fits` says whether the kernel can run it at all."""

    config: ModelConfig
    blocks: int = 128
    warps: int = 16
    chunk_limit: int = 20_480
    """Bytes of weights in a chunk at most."""
    in_flight: int = 2
    """Chunks that a block asks for at a time (csrc/common/weight_ring.cuh)."""

    @property
    def stack(self) -> StackConfig:
        return self.config.slow

    def fits(self) -> bool:
        """Both stacks alike, and everything divides: true of S2-Pro, not of small models."""
        slow, fast = self.config.slow, self.config.fast
        alike = ("dim", "heads", "kv_heads", "head_dim", "ffn_dim")
        if any(getattr(slow, name) != getattr(fast, name) for name in alike):
            return False
        if not slow.qk_norm or fast.qk_norm or not self.config.norm_fastlayer_input:
            return False
        if slow.heads // slow.kv_heads * slow.head_dim != 32 * self.warps or slow.head_dim % 64:
            return False
        try:
            self.plans()
        except ValueError:
            return False
        return bool(self.batches())

    def batches(self) -> list[int]:
        """Batch sizes the kernel is compiled for: the attention units must be as many as the blocks."""
        return [b for b in (1, 2, 4) if self.blocks % (b * self.stack.kv_heads) == 0]

    def plans(self) -> dict[str, ProductPlan]:
        s = self.stack
        return {
            "qkv": self._plan(s.q_width + 2 * s.kv_width, s.dim, multiple=2),
            "out": self._plan(s.dim, s.q_width, single_group=True),
            "gate_up": self._plan(2 * s.ffn_dim, s.dim, multiple=4),
            "down": self._plan(s.dim, s.ffn_dim, single_group=True),
            "slow_head": self._head(self.config.codebook_size, extra=True),
            "fast_head": self._head(self.config.residual_codebook_size, extra=False),
        }

    def _plan(self, n: int, k: int, *, multiple: int = 1, single_group: bool = False) -> ProductPlan:
        """Tall chunks use the tensor cores best; K is split when no chunk of four rows fits otherwise."""
        rows = self._rows(n)
        for least in (4, 1):
            for parts in (1, 2):
                if k % (16 * self.warps * parts):
                    continue
                tall = [
                    r
                    for r in range(MAX_CHUNK_ROWS, least - 1, -1)
                    if rows % r == 0 and r % multiple == 0 and r * k // parts <= self.chunk_limit
                ]
                fit = [r for r in tall if rows // r <= SLOTS or not (single_group or parts > 1)]
                if fit:
                    return ProductPlan(rows, fit[0], k, parts, half=False)
        raise ValueError(f"no chunks for a product of {n} x {k} over {self.blocks} blocks")

    def _head(self, codes: int, *, extra: bool) -> ProductPlan:
        rows, k = self._rows(codes), self.stack.dim
        for r in range(MAX_CHUNK_ROWS, 0, -1):
            if rows % r == 0 and 2 * r * k <= self.chunk_limit:
                return ProductPlan(rows + (r if extra else 0), r, k, 1, half=True)
        raise ValueError(f"no chunks for a head of {codes} rows")

    def _rows(self, n: int) -> int:
        if n % self.blocks or n // self.blocks % 2:
            raise ValueError(f"{n} outputs do not make an even share for {self.blocks} blocks")
        return n // self.blocks

    @property
    def stage_bytes(self) -> int:
        return max(plan.chunk_bytes for plan in self.plans().values())

    def exchange_words(self, batch: int) -> int:
        s, rows = self.stack, 2 * batch
        per_row = (s.dim + s.q_width + 2 * s.kv_width + s.q_width + s.ffn_dim) // 2
        parts = self.blocks * (s.heads // s.kv_heads) * (s.head_dim + 2)
        return rows * per_row + parts + batch * (self.config.codebook_size + 8) + batch

    def _state_bytes(self, batch: int) -> int:
        """sizeof(Shared) in csrc/frame.cu."""
        s, c, rows, own = self.stack, self.config, 2 * batch, self.stack.dim // self.blocks
        group = s.heads // s.kv_heads
        parts = self.warps // 2 * group * (s.head_dim + 2)
        sampler = _SCRATCH_STRUCT_BYTES // 4 + c.codebook_size + 8
        floats = 2 * SLOTS * self.warps * rows * 8 + 2 * self.warps * rows + (batch + rows) * own + max(parts, sampler)
        halves = 2 * group * s.head_dim + 2 * c.fast.layers * c.num_codebooks * s.head_dim
        return 4 * floats + 2 * halves + 4 * (2 * batch + c.num_codebooks)

    def _ring_bytes(self, stages: int) -> int:
        return -(-stages * (self.stage_bytes + 16) // 128) * 128

    def stages(self, batch: int) -> int:
        room = SHARED_LIMIT_BYTES - self._state_bytes(batch)
        return min(MAX_STAGES, next(n for n in range(MAX_STAGES, 0, -1) if self._ring_bytes(n) <= room))

    def shared_bytes(self, batch: int) -> int:
        return self._ring_bytes(self.stages(batch)) + self._state_bytes(batch)

    def spec(self, batch: int, keys: Tensor) -> KernelSpec:
        s, c, plans = self.stack, self.config, self.plans()
        values = {
            "WARPS": self.warps,
            "BLOCKS": self.blocks,
            "BATCH": batch,
            "STAGES": self.stages(batch),
            "STAGE_BYTES": self.stage_bytes,
            "IN_FLIGHT": self.in_flight,
            "SHARED_BYTES": self.shared_bytes(batch),
            "EXCHANGE_WORDS": self.exchange_words(batch),
            "DIM": s.dim,
            "HEADS": s.heads,
            "KV_HEADS": s.kv_heads,
            "HEAD_DIM": s.head_dim,
            "FFN": s.ffn_dim,
            "SLOW_LAYERS": s.layers,
            "FAST_LAYERS": c.fast.layers,
            "CODES": c.codebook_size,
            "RESIDUALS": c.residual_codebook_size,
            "CODEBOOKS": c.num_codebooks,
            "SLOW_HEAD_ROWS": plans["slow_head"].chunk_rows,
            "FAST_HEAD_ROWS": plans["fast_head"].chunk_rows,
        }
        for name in ("qkv", "out", "gate_up", "down"):
            values |= {f"{name.upper()}_ROWS": plans[name].chunk_rows, f"{name.upper()}_PARTS": plans[name].parts}
        defines = (*((f"KF_{name}", value) for name, value in values.items()), kv_define(keys))
        threads = 32 * self.warps + PRODUCER_THREADS
        return KernelSpec("frame.cu", "decode_frame", threads, _FrameParams, defines)


def pack_product(plan: ProductPlan, blocks: int, warps: int, weight: Tensor | Quantised) -> Tensor:
    """[blocks * rows, K], quantised per row (a head: fp32) -> uint8 [blocks, block_bytes], each block's rows in order.

    Index letters: b block, r row group, n row in the group, p part of K, w warp, s step, j lane of 4, e value of 4.
    """
    steps, groups = plan.steps(warps), plan.rows // plan.chunk_rows
    if isinstance(weight, Quantised):
        assert not plan.half and weight.grouping == PER_ROW, "the kernel knows one scale per row"
        raw, scale, lane_bytes = weight.values.view(torch.uint8), weight.scale, 4
    else:
        assert plan.half, "the kernel's layers are quantised"
        raw, lane_bytes = weight.to(torch.float16).view(torch.uint8), 8
        scale = torch.ones(weight.shape[0], device=weight.device)
    cut = raw.view(blocks, groups, plan.chunk_rows, plan.parts, warps, steps, 4, lane_bytes)
    cut = cut.permute(0, 3, 1, 4, 5, 2, 6, 7)  # b p r w s n j e
    pairs, odd = cut[:, :, :, :, : steps // 2 * 2], cut[:, :, :, :, steps // 2 * 2 :]
    # Two steps of a lane stand together; an odd last step stands alone.
    together = pairs.unflatten(4, (-1, 2)).permute(0, 1, 2, 3, 4, 6, 7, 5, 8)
    flat = torch.cat([together.flatten(4), odd.flatten(4)], dim=4).flatten(3)
    scales = torch.zeros(blocks, groups, MAX_CHUNK_ROWS, device=raw.device)
    scales[:, :, : plan.chunk_rows] = scale.view(blocks, groups, plan.chunk_rows)
    tail = scales.view(torch.uint8).view(blocks, 1, groups, SCALES_BYTES).expand(-1, plan.parts, -1, -1)
    packed = torch.cat([flat, tail], dim=3).flatten(1).contiguous()
    assert packed.shape == (blocks, plan.block_bytes), "the packing does not match the plan"
    return packed


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """uint8 [blocks, bytes]: each block's stream for the slow and the fast transformer."""

    slow: Tensor
    fast: Tensor
    q_norms: Tensor
    k_norms: Tensor

    @classmethod
    def build(
        cls, geometry: Geometry, tensors: Mapping[str, Tensor | Quantised], *, semantic_begin: int, im_end: int
    ) -> PackedWeights:
        """From raw names, on the device: products quantised per row with the norms folded in, the rest of any float
        dtype. Raises ConfigError where the norms are not folded."""
        config, plans = geometry.config, geometry.plans()

        def take(name: str) -> Tensor:
            tensor = tensors[name]
            assert isinstance(tensor, Tensor), "only products are quantised"
            return tensor

        embeddings = take("embeddings.weight" if config.tie_word_embeddings else "output.weight")
        codes = embeddings[semantic_begin : semantic_begin + config.codebook_size].float()
        slow_head = _slow_head(plans["slow_head"], geometry.blocks, codes, embeddings[im_end].float())
        fast_head = take("fast_output.weight")[: config.residual_codebook_size].float()
        streams = []
        for prefix, stack, norm, head, plan in (
            ("layers", config.slow, "norm.weight", slow_head, plans["slow_head"]),
            ("fast_layers", config.fast, "fast_norm.weight", fast_head, plans["fast_head"]),
        ):
            parts = [_pack_layer(geometry, tensors, f"{prefix}.{i}.") for i in range(stack.layers)]
            parts.append(pack_product(plan, geometry.blocks, geometry.warps, head * take(norm).float()))
            streams.append(torch.cat(parts, dim=1))
        norms = [
            torch.stack([take(f"layers.{i}.attention.{n}_norm.weight") for i in range(config.slow.layers)])
            for n in ("q", "k")
        ]
        q_norms, k_norms = (n.to(torch.bfloat16).contiguous() for n in norms)
        return cls(streams[0], streams[1], q_norms, k_norms)


def _slow_head(plan: ProductPlan, blocks: int, codes: Tensor, end: Tensor) -> Tensor:
    """Each block's share of the codes, then a chunk of further rows: the end token's in block 0, else zeros."""
    share, extra = codes.shape[0] // blocks, plan.chunk_rows
    rows = torch.zeros(blocks, share + extra, codes.shape[1], device=codes.device)
    rows[:, :share] = codes.view(blocks, share, -1)
    rows[0, share] = end
    return rows.flatten(0, 1)


def _pack_layer(geometry: Geometry, tensors: Mapping[str, Tensor | Quantised], prefix: str) -> Tensor:
    for name in ("attention_norm.weight", "ffn_norm.weight"):
        norm = tensors[prefix + name]
        if not isinstance(norm, Tensor) or not bool((norm == 1).all()):
            raise ConfigError(
                f"{prefix}{name} is not ones: the frame kernel wants it folded into the products after it"
            )
    plans = geometry.plans()
    weights = {
        "qkv": _product(tensors, prefix + "attention.wqkv.weight"),
        "out": _product(tensors, prefix + "attention.wo.weight"),
        "gate_up": _alternating(*(_product(tensors, f"{prefix}feed_forward.{n}.weight") for n in ("w1", "w3"))),
        "down": _product(tensors, prefix + "feed_forward.w2.weight"),
    }
    return torch.cat([pack_product(plans[name], geometry.blocks, geometry.warps, w) for name, w in weights.items()], 1)


def _product(tensors: Mapping[str, Tensor | Quantised], name: str) -> Quantised:
    weight = tensors[name]
    assert isinstance(weight, Quantised), f"{name} is not quantised"
    return weight


def _alternating(gates: Quantised, ups: Quantised) -> Quantised:
    """A block's gates and ups alternate, so that they meet in one thread."""
    values = torch.stack([gates.values.view(torch.uint8), ups.values.view(torch.uint8)], dim=1).flatten(0, 1)
    scale = torch.stack([gates.scale, ups.scale], dim=1).flatten(0, 1)
    return Quantised(values.view(torch.float8_e4m3fn), scale, PER_ROW)


class _FrameParams(Structure):
    _fields_ = [
        ("state", _SlotState),
        *((name, c_void_p) for name in ("row_slot", "slow_weights", "fast_weights", "exchange", "epoch")),
        *((name, c_void_p) for name in ("embeddings", "codebook_embeddings", "fast_embeddings")),
        *((name, c_void_p) for name in ("q_norms", "k_norms", "slow_norm", "slow_rope", "fast_rope")),
        *((name, c_void_p) for name in ("keys", "values", "ended", "finite")),
        ("layer_values", c_longlong),
        ("context", c_int),
        ("semantic_begin", c_int),
        *((name, c_float) for name in ("spoken_scale", "slow_eps", "fast_eps", "scale_log2")),
    ]


class FrameKernel:
    """The kernel with its exchange buffers, one set per batch size."""

    def __init__(
        self, geometry: Geometry, packed: PackedWeights, weights: ModelWeights, kv: KvPool, state: SlotState
    ) -> None:
        self._geometry, self._packed, self._weights, self._kv, self._state = geometry, packed, weights, kv, state
        device = state.positions.device
        self.batches = geometry.batches()
        self._exchange = {
            b: torch.zeros(geometry.exchange_words(b) + 1, dtype=torch.int64, device=device) for b in self.batches
        }

    def run(self, kernels: Kernels, row_slot: Tensor, flags: Tensor) -> None:
        """One frame for the slots of row_slot int32 [batch]; flags uint8 [2, batch at least]: ended, finite."""
        batch = row_slot.shape[0]
        weights, config, keys = self._weights, self._geometry.config, self._kv.keys
        stack, exchange = config.slow, self._exchange[batch]
        expect(row_slot, "row_slot", (batch,), torch.int32)
        params = _FrameParams(
            state=_state_struct(self._state),
            row_slot=pointer(row_slot),
            slow_weights=pointer(self._packed.slow),
            fast_weights=pointer(self._packed.fast),
            exchange=pointer(exchange),
            epoch=exchange[-1:].data_ptr(),
            embeddings=pointer(weights.embeddings),
            codebook_embeddings=pointer(weights.codebook_embeddings),
            fast_embeddings=pointer(weights.fast_embeddings),
            q_norms=pointer(self._packed.q_norms),
            k_norms=pointer(self._packed.k_norms),
            slow_norm=pointer(weights.slow.norm),
            slow_rope=pointer(weights.slow.rope),
            fast_rope=pointer(weights.fast.rope),
            keys=pointer(keys),
            values=pointer(self._kv.values),
            ended=flags[0].data_ptr(),
            finite=flags[1].data_ptr(),
            layer_values=keys[0].numel(),
            context=keys.shape[3],
            semantic_begin=weights.semantic_begin,
            spoken_scale=weights.spoken_scale,
            slow_eps=stack.norm_eps,
            fast_eps=config.fast.norm_eps,
            scale_log2=LOG2_E / math.sqrt(stack.head_dim),
        )
        kernels.launch(
            self._geometry.spec(batch, keys),
            (self._geometry.blocks, 1, 1),
            params,
            shared_bytes=self._geometry.shared_bytes(batch),
            cooperative=True,
        )
