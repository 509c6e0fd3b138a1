"""Every kernel that serves S2-Pro compiles by NVRTC, as it does on the GPU machine, for the cards it is for."""

from __future__ import annotations

import ctypes
import re
from collections import defaultdict

import pytest
import torch

from engine.cuda import codec_ops, conv, slot_state
from engine.cuda.frame import FrameBuffers, SlowBuffers, decode_frame, prefill_rows
from engine.cuda.frame_kernel import Geometry
from engine.cuda.grouped_gemm import grouped_gemm, mx_gemm, mx_quantise
from engine.cuda.kernels import CSRC, KernelSpec, compile_options
from engine.cuda.nvrtc import NvrtcError, compile_source
from engine.cuda.random_model import IM_END, S2_PRO, SEMANTIC_BEGIN
from engine.cuda.slot_state import KvPool, SlotState
from engine.cuda.weights import ModelWeights
from engine.quant.formats import MX_32, quantise
from engine.training import taps
from engine.weights import expected_shapes

ROWS, CONTEXT = 4, 64
HOPPER, BLACKWELL = "sm_90a", "sm_120a"
ARCHITECTURES = (HOPPER, BLACKWELL)
WARPGROUPS = ("KF_WARPGROUPS", 1)
BLOCK_SCALES = "mx_gemm.cu"
"""Needs tensor cores that take scales."""
SPILLED_BYTES = {"frame.cu": 800, "fast_attention.cu": 8, "attention.cu": 12}
"""What may be stored to memory because registers ran out; no other kernel may. The frame kernel's blocks start with 96
registers a thread, and its consumers live with what the compiler makes of that (loadtest/LOG.md)."""

Unit = tuple[str, tuple[tuple[str, int], ...]]
"""A source and the values it is compiled for."""


class Recorder:
    """`Kernels` that only remembers what it was asked for."""

    has_warpgroups = True
    has_block_scales = True

    def __init__(self) -> None:
        self.specs: list[KernelSpec] = []

    def launch(
        self,
        spec: KernelSpec,
        grid: tuple[int, int, int],
        params: ctypes.Structure,
        *,
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        self.specs.append(spec)


def transformer_specs() -> list[KernelSpec]:
    """What a decode step and a prefill launch, from running both on tensors without contents. In FP8 it is the same
    kernels: the products are the library's."""
    meta, recorder = torch.device("meta"), Recorder()
    with meta:
        weights = ModelWeights.build(
            S2_PRO,
            {name: torch.empty(shape) for name, shape in expected_shapes(S2_PRO).items()},
            semantic_begin=SEMANTIC_BEGIN,
            im_end=IM_END,
            context_tokens=CONTEXT,
            device=meta,
        )
        state = SlotState.fresh(S2_PRO, ROWS, meta)
        columns = torch.zeros(ROWS, 1 + S2_PRO.num_codebooks, dtype=torch.int32)
        positions = torch.zeros(ROWS, dtype=torch.int32)
        prompt = SlowBuffers.empty(S2_PRO.slow, ROWS, meta, fp8=False, one_slot=True)
        frame = FrameBuffers.empty(weights, ROWS, meta)
        for kv_fp8 in (False, True):
            kv = KvPool.zeros(S2_PRO.slow, ROWS + 1, CONTEXT, meta, fp8=kv_fp8)
            decode_frame(recorder, weights, kv, state, frame, ROWS)
            prefill_rows(recorder, weights, kv, prompt, columns, positions, ROWS)
    return recorder.specs


def codec_specs() -> list[KernelSpec]:
    tiles = [value for value in vars(conv).values() if type(value) is conv.Tile]
    constant = [value for module in (codec_ops, slot_state, taps) for value in vars(module).values()]
    return [*(conv.spec_of(tile) for tile in tiles), *(value for value in constant if type(value) is KernelSpec)]


def grouped_specs() -> list[KernelSpec]:
    """Products of weights in groups, for every number of tokens."""
    recorder = Recorder()
    for rows in (1, 16, 32, 64):
        x, out = torch.zeros(rows, 128, dtype=torch.bfloat16), torch.zeros(rows, 128, dtype=torch.bfloat16)
        weight, scaled = quantise(torch.zeros(128, 128), MX_32), quantise(x, MX_32)
        grouped_gemm(recorder, x, weight, out)
        mx_quantise(recorder, x, scaled)
        mx_gemm(recorder, scaled, weight, out)
    return recorder.specs


def units() -> dict[Unit, set[str]]:
    """Translation units, and the kernels that each must hold."""
    geometry = Geometry(S2_PRO)
    found: dict[Unit, set[str]] = defaultdict(set)
    specs = [*transformer_specs(), *codec_specs(), *grouped_specs()]
    caches = torch.empty(0, dtype=torch.bfloat16), torch.empty(0, dtype=torch.float8_e4m3fn)
    specs += [geometry.spec(batch, keys) for batch in geometry.batches() for keys in caches]
    for spec in specs:
        found[spec.source, spec.defines].add(spec.name)
    return found


UNITS = units()


def label(unit: Unit) -> str:
    return f"{unit[0]}-{'-'.join(str(value) for _, value in (*unit[1][:6], *unit[1][6:][-1:]))}"


def targets() -> list[tuple[Unit, str]]:
    """Every unit for every card that has what it needs."""
    found = []
    for unit in UNITS:
        alone = HOPPER if WARPGROUPS in unit[1] else BLACKWELL if unit[0] == BLOCK_SCALES else None
        found += [(unit, arch) for arch in ARCHITECTURES if alone in (arch, None)]
    return found


@pytest.mark.parametrize(
    ("unit", "arch"), targets(), ids=lambda value: value if isinstance(value, str) else label(value)
)
def test_it_compiles_without_spills(unit: Unit, arch: str) -> None:
    source, defines = unit
    options = compile_options(KernelSpec(source, "", 0, ctypes.Structure, defines), arch)
    compiled = compile_source((CSRC / source).read_text(), source, [*options, "--ptxas-options=-v"])
    for name in UNITS[unit]:
        assert f".text.{name}\0".encode() in compiled.cubin, f"{source} has no kernel {name}"
    spilled = [int(count) for count in re.findall(r"(\d+) bytes spill stores", compiled.log)]
    assert len(spilled) >= len(UNITS[unit]), compiled.log
    assert max(spilled) <= SPILLED_BYTES.get(source, 0), compiled.log


def test_no_source_is_forgotten() -> None:
    assert {source for source, _ in UNITS} == {path.name for path in CSRC.glob("*.cu")}


def test_what_does_not_compile_says_where() -> None:
    with pytest.raises(NvrtcError, match=r"broken\.cu does not compile:(.|\n)*expected an expression"):
        compile_source("int f( {", "broken.cu", [f"--gpu-architecture={ARCHITECTURES[0]}"])


def test_a_compiler_with_nothing_to_say_leaves_the_bytes_of_others_alone() -> None:
    """Its log is one byte then, the end of a string. It was written over the blank that all of Python shares: WebSocket
    handshakes and headers of array files came apart in the process that had compiled the kernels, and in no later one.
    """
    kernel = 'extern "C" __global__ void store(int* where) { *where = 1; }'
    assert compile_source(kernel, "store.cu", [f"--gpu-architecture={HOPPER}"]).log == ""
    assert [bytes([value])[0] for value in range(256)] == list(range(256))
