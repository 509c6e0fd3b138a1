"""Everything the device keeps per slot, and the operations that write it.

One row more than there are slots: the last is the *scratch slot*, where the padding rows of a batch live. It is ended
from the start, so padding changes nothing that anybody reads.
"""

from __future__ import annotations

from ctypes import Structure, c_float, c_int, c_uint32, c_void_p
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.api import Sampling
from engine.config import ConfigError, ModelConfig, StackConfig
from engine.cuda.kernels import Kernels, KernelSpec
from engine.cuda.ops import expect, pointer

__all__ = ["MAX_TOP_K", "PENDING_FRAMES", "KvPool", "SlotState", "arm", "sample_residual", "sample_semantic"]

PENDING_FRAMES = 64
"""Ring of decoded frames per slot. What the codec has not read may be this far behind."""
RAS_WINDOW = 10
MAX_TOP_K = 256
"""The sampler keeps that many candidates in shared memory."""
MAX_CODEBOOKS = 32

_SCRATCH_STRUCT_BYTES = 4 * (32 + 256 + 5 + MAX_TOP_K + 2 * 2 * MAX_TOP_K + 2 * MAX_TOP_K + 1)
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class KvPool:
    """KV of the slow transformer: keys [layers, S, G, T, D]; values [layers, S, G, T/2, D, 2]; bf16, or E4M3 as it is.

    T is the context, an even number. Zero at first: what no one wrote is read, with weight 0, and must be finite.
    """

    keys: Tensor
    values: Tensor

    @classmethod
    def zeros(
        cls, stack: StackConfig, slots: int, context_tokens: int, device: torch.device, *, fp8: bool = False
    ) -> KvPool:
        """Raises ConfigError for E4M3 where keys are not normed: nothing bounds them."""
        if fp8 and not stack.qk_norm:
            raise ConfigError("keys in FP8 need a model with qk-norm: without it nothing bounds them")
        dtype = torch.float8_e4m3fn if fp8 else torch.bfloat16
        padded = -(-context_tokens // 16) * 16  # attention reads blocks of 16 positions
        shape = (stack.layers, slots, stack.kv_heads)
        keys = torch.zeros((*shape, padded, stack.head_dim), dtype=dtype, device=device)
        values = torch.zeros((*shape, padded // 2, stack.head_dim, 2), dtype=dtype, device=device)
        return cls(keys, values)

    def copy_prefix(self, slot: int, tokens: int) -> KvPool:
        """A copy of positions 0..tokens-1 of a slot (values: of whole pairs)."""
        pairs = -(-tokens // 2)
        return KvPool(self.keys[:, slot, :, :tokens].clone(), self.values[:, slot, :, :pairs].clone())

    def put_prefix(self, slot: int, prefix: KvPool) -> None:
        self.keys[:, slot, :, : prefix.keys.shape[2]].copy_(prefix.keys)
        self.values[:, slot, :, : prefix.values.shape[2]].copy_(prefix.values)


@dataclass(frozen=True, slots=True)
class SlotState:
    """Names as in csrc/sample.cu. S slots (the scratch slot included), K codebooks."""

    columns: Tensor
    """int32 [S, 1+K]: the next input."""
    positions: Tensor
    frames: Tensor
    ended: Tensor
    window: Tensor
    """int32 [S, 10]: the last semantic token ids; zeros never match one."""
    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    seed: Tensor
    """int32 [S, 2]: low and high word."""
    codes: Tensor
    """int32 [S, PENDING_FRAMES, K]: frame f stands at f % PENDING_FRAMES."""

    @classmethod
    def fresh(cls, config: ModelConfig, slots: int, device: torch.device) -> SlotState:
        def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        rows = slots + 1
        return cls(
            columns=zeros(rows, 1 + config.num_codebooks),
            positions=zeros(rows),
            frames=zeros(rows),
            ended=torch.ones(rows, dtype=torch.int32, device=device),
            window=zeros(rows, RAS_WINDOW),
            temperature=torch.ones(rows, device=device),
            top_p=zeros(rows, dtype=torch.float32),
            top_k=torch.ones(rows, dtype=torch.int32, device=device),
            seed=zeros(rows, 2),
            codes=zeros(rows, PENDING_FRAMES, config.num_codebooks),
        )

    @property
    def scratch_slot(self) -> int:
        return self.positions.shape[0] - 1


class _SlotState(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("columns", "positions", "frames", "ended", "window")),
        *((name, c_void_p) for name in ("temperature", "top_p", "top_k", "seed", "codes")),
        ("codebooks", c_int),
        ("pending", c_int),
    ]


def _state_struct(state: SlotState) -> _SlotState:
    fields = ("columns", "positions", "frames", "ended", "window", "temperature", "top_p", "top_k", "seed", "codes")
    return _SlotState(*(pointer(getattr(state, name)) for name in fields), state.codes.shape[2], PENDING_FRAMES)


class _SemanticParams(Structure):
    _fields_ = [
        ("state", _SlotState),
        *((name, c_void_p) for name in ("row_slot", "logits", "fast_in", "fast_projected", "fast_bias")),
        *((name, c_void_p) for name in ("fast_embeddings", "fast_x", "row_codes", "ended", "finite")),
        *((name, c_int) for name in ("stride", "codebook_size", "semantic_begin", "fast_dim")),
    ]


SAMPLE_SEMANTIC = KernelSpec("sample.cu", "sample_semantic", 256, _SemanticParams)


def sample_semantic(
    kernels: Kernels,
    state: SlotState,
    row_slot: Tensor,
    logits: Tensor,
    fast_in: Tensor,
    fast_bias: Tensor | None,
    fast_embeddings: Tensor,
    fast_x: Tensor,
    row_codes: Tensor,
    ended: Tensor,
    finite: Tensor,
    *,
    semantic_begin: int,
) -> None:
    """Draw the semantic token of each row and set up positions 0 and 1 of the fast transformer.

    logits fp32 [B, padded], of which codebook_size + 1 count. fast_in: fp32 [B, Cf] as it is, or bf16 [B, Cf] to which
    `fast_bias` is added. Writes fast_x fp32 [2B, Cf], row_codes int32 [B, K] column 0, ended and finite uint8 [B].
    """
    rows = row_slot.shape[0]
    codebook_size, fast_dim = fast_embeddings.shape
    codebooks = state.codes.shape[2]
    expect(row_slot, "row_slot", (rows,), torch.int32)
    expect(logits, "logits", (rows, logits.shape[1]), torch.float32)
    expect(fast_in, "fast_in", (rows, fast_dim), torch.float32 if fast_bias is None else torch.bfloat16)
    expect(fast_embeddings, "fast_embeddings", (codebook_size, fast_dim), torch.bfloat16)
    expect(fast_x, "fast_x", (2 * rows, fast_dim), torch.float32)
    expect(row_codes, "row_codes", (rows, codebooks), torch.int32)
    expect(ended, "ended", (rows,), torch.uint8)
    expect(finite, "finite", (rows,), torch.uint8)
    params = _SemanticParams(
        _state_struct(state),
        pointer(row_slot),
        pointer(logits),
        pointer(fast_in if fast_bias is None else None),
        pointer(None if fast_bias is None else fast_in),
        pointer(fast_bias),
        pointer(fast_embeddings),
        pointer(fast_x),
        pointer(row_codes),
        pointer(ended),
        pointer(finite),
        logits.shape[1],
        codebook_size,
        semantic_begin,
        fast_dim,
    )
    kernels.launch(SAMPLE_SEMANTIC, (rows, 1, 1), params, shared_bytes=_sampler_bytes(codebook_size + 1))


class _ResidualParams(Structure):
    _fields_ = [
        ("state", _SlotState),
        *((name, c_void_p) for name in ("row_slot", "logits", "fast_embeddings", "fast_x", "row_codes", "finite")),
        *((name, c_int) for name in ("stride", "length", "codebook", "semantic_begin", "fast_dim")),
    ]


SAMPLE_RESIDUAL = KernelSpec("sample.cu", "sample_residual", 256, _ResidualParams)


def sample_residual(
    kernels: Kernels,
    state: SlotState,
    row_slot: Tensor,
    logits: Tensor,
    fast_embeddings: Tensor,
    fast_x: Tensor,
    row_codes: Tensor,
    finite: Tensor,
    *,
    codebook: int,
    length: int,
    semantic_begin: int,
) -> None:
    """Draw codebook 1..K-1 of each row among `length` codes; the last codebook closes the frame in the slot's books.

    Writes row_codes int32 [B, K] and, but for the last codebook, fast_x fp32 [B, Cf], the next position's input. Where
    the logits are not finite the slot ends without the frame and finite uint8 [B] is cleared.
    """
    rows, fast_dim = fast_x.shape
    expect(row_slot, "row_slot", (rows,), torch.int32)
    expect(logits, "logits", (rows, logits.shape[1]), torch.float32)
    expect(fast_x, "fast_x", (rows, fast_dim), torch.float32)
    expect(row_codes, "row_codes", (rows, state.codes.shape[2]), torch.int32)
    expect(finite, "finite", (rows,), torch.uint8)
    params = _ResidualParams(
        _state_struct(state),
        pointer(row_slot),
        pointer(logits),
        pointer(fast_embeddings),
        pointer(fast_x),
        pointer(row_codes),
        pointer(finite),
        logits.shape[1],
        length,
        codebook,
        semantic_begin,
        fast_dim,
    )
    kernels.launch(SAMPLE_RESIDUAL, (rows, 1, 1), params, shared_bytes=_sampler_bytes(length))


def _sampler_bytes(length: int) -> int:
    return _SCRATCH_STRUCT_BYTES + 4 * length


class _ArmParams(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("columns", "positions", "frames", "ended", "window")),
        *((name, c_void_p) for name in ("temperature", "top_p", "top_k", "seed")),
        *((name, c_int) for name in ("codebooks", "slot", "position", "row_top_k")),
        *((name, c_float) for name in ("row_temperature", "row_top_p")),
        *((name, c_uint32) for name in ("seed_low", "seed_high")),
        ("column", c_int * (1 + MAX_CODEBOOKS)),
    ]


ARM = KernelSpec("sample.cu", "arm_slot", 32, _ArmParams)


def arm(kernels: Kernels, state: SlotState, slot: int, column: np.ndarray, position: int, sampling: Sampling) -> None:
    """Set everything of a slot but its KV for a new unit. Raises ValueError for a top_k past MAX_TOP_K."""
    codebooks = state.codes.shape[2]
    if not 1 <= sampling.top_k <= MAX_TOP_K:
        raise ValueError(f"top_k must be 1..{MAX_TOP_K}, not {sampling.top_k}")
    if column.shape != (1 + codebooks,):
        raise ValueError(f"a column has {1 + codebooks} entries, not {list(column.shape)}")
    fields = ("columns", "positions", "frames", "ended", "window", "temperature", "top_p", "top_k", "seed")
    params = _ArmParams(
        *(pointer(getattr(state, name)) for name in fields),
        codebooks,
        slot,
        position,
        sampling.top_k,
        sampling.temperature,
        sampling.top_p,
        sampling.seed & _WORD,
        (sampling.seed >> 32) & _WORD,
        (c_int * (1 + MAX_CODEBOOKS))(*column.tolist()),
    )
    kernels.launch(ARM, (1, 1, 1), params)
