"""The CUDA seams on a CPU: kernels compiled by the host compiler against the emulator, a device that does it now.

What runs is the kernels' own source; what is replaced is `common/ptx.cuh`, streams and graphs.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.cuda.kernels import CSRC, KernelSpec, source_fingerprint
from engine.cuda.load import make_backend
from engine.load import make_runner
from engine.runner import Runner
from engine.stored_model import open_model
from engine.tokenizer import Tokenizer
from engine.voices import read_voices

EMULATOR = Path(__file__).parent / "emulator"
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


def drawn(random: torch.Generator, *shape: int) -> Tensor:
    """Normal numbers from a CPU generator on the default device: the GPU tests run the same laws on the same values."""
    return torch.randn(shape, generator=random, device="cpu").to(torch.get_default_device())


class _Launch(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("threads", ctypes.c_uint)] + [
        (name, ctypes.c_uint) for name in ("shared_bytes", "cooperative")
    ]


class EmulatedKernels:
    """`engine.cuda.kernels.Kernels` on the CPU."""

    has_warpgroups = True

    def __init__(self, cache: Path | None = None, *, has_block_scales: bool = False) -> None:
        self.has_block_scales = has_block_scales
        self._cache = cache or Path(tempfile.gettempdir()) / "kingfisher-emulated"
        self._libraries: dict[tuple[str, tuple[tuple[str, int], ...]], ctypes.CDLL] = {}
        self.launches: list[str] = []

    def launch(
        self,
        spec: KernelSpec,
        grid: tuple[int, int, int],
        params: ctypes.Structure,
        *,
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        library = self._library(spec)
        declared = getattr(library, f"{spec.name}_params_bytes")()
        assert declared == ctypes.sizeof(spec.params), f"{spec.name}: C++ says {declared} bytes of parameters"
        assert getattr(library, f"{spec.name}_threads")() == spec.threads, f"{spec.name}: thread counts differ"
        launch = _Launch((ctypes.c_uint * 3)(*grid), spec.threads, shared_bytes, int(cooperative))
        getattr(library, spec.name)(ctypes.byref(launch), ctypes.byref(params))
        self.launches.append(spec.name)

    def _library(self, spec: KernelSpec) -> ctypes.CDLL:
        key = (spec.source, spec.defines)
        if key not in self._libraries:
            self._libraries[key] = ctypes.CDLL(str(self._build(spec)))
        return self._libraries[key]

    def _build(self, spec: KernelSpec) -> Path:
        assert COMPILER is not None, "the emulation needs a C++ compiler"
        defines = [f"-D{name}={value}" for name, value in spec.defines]
        digest = hashlib.sha256(repr((source_fingerprint(), spec.source, defines)).encode())
        for header in sorted(EMULATOR.rglob("*.*h")):
            digest.update(header.read_bytes())
        target = self._cache / f"{Path(spec.source).stem}-{digest.hexdigest()[:16]}.so"
        if not target.exists():
            self._cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._cache) as folder:
                made = Path(folder) / "kernel.so"
                command = [COMPILER, "-std=c++20", "-O2", "-shared", "-fPIC", "-x", "c++", "-w", *defines]
                command += [f"-I{EMULATOR}", f"-I{CSRC}", "-o", str(made), str(CSRC / spec.source)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr[:4000]
                made.rename(target)
        return target


class EmulatedDevice:
    """`engine.cuda.device.Device` on the CPU: one thing after another."""

    def __init__(self, *, has_block_scales: bool = False) -> None:
        self.torch_device = torch.device("cpu")
        self.kernels = EmulatedKernels(has_block_scales=has_block_scales)

    def stream(self, *, urgent: bool) -> str:
        return "urgent" if urgent else "background"

    def on(self, stream: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def record(self, stream: str) -> str:
        return "happened"

    def wait(self, stream: str, event: str) -> None:
        assert event == "happened"

    def join(self, event: str) -> None:
        assert event == "happened"

    def happened(self, event: str) -> bool:
        return event == "happened"

    def seconds_between(self, first: str, second: str) -> float:
        return 0.0

    def capture(self, stream: str, work: Callable[[], None]) -> Callable[[], None]:
        return work

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
        return torch.zeros(shape, dtype=dtype)


def load_emulated(folder: Path, *, slots: int) -> Runner:
    """An engine whose CUDA kernels run in the CPU emulation, in bf16."""
    model, codec = open_model(folder), Codec.load(folder)
    context = model.config.slow.max_seq_len
    backend = make_backend(model, codec, slots=slots, context_tokens=context, fp8=False, device=EmulatedDevice())
    return make_runner(backend, Tokenizer(folder), read_voices(folder, codec.config.codebook_sizes), codec.config)
