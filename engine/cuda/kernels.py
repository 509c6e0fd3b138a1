"""Compile the kernels of csrc/ with NVRTC, once, and launch them on torch's current stream.

A kernel takes one parameter struct by value; its ctypes mirror stands beside the operation that fills it
(`engine.cuda.ops`). Compiled code is cached by a hash of the sources, the options, the architecture and the compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.cuda.nvrtc import NvrtcError, compile_source, nvrtc_version

__all__ = ["CSRC", "CudaError", "CudaKernels", "KernelSpec", "Kernels", "compile_options", "source_fingerprint"]

CSRC = Path(__file__).parents[2] / "csrc"

STATIC_SHARED_LIMIT = 48 * 1024
"""Above it a kernel must be allowed more dynamic shared memory."""


class CudaError(RuntimeError):
    """NVRTC or the driver refused something; the message holds what it said."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel: where it is, how many threads a block has, and the values it is compiled for."""

    source: str
    """File name in csrc/."""
    name: str
    threads: int
    params: type[ctypes.Structure]
    defines: tuple[tuple[str, int], ...] = ()


class Kernels(Protocol):
    """The seam between operations and the device; the tests put a CPU emulation here."""

    has_warpgroups: bool
    """Whether the device has warpgroup products: Hopper has them, and nothing before or after it."""
    has_block_scales: bool
    """Whether the tensor cores take UE8M0 scales with `mma.sync` (sm_120a)."""

    def launch(
        self,
        spec: KernelSpec,
        grid: tuple[int, int, int],
        params: ctypes.Structure,
        *,
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Queue the kernel on the current stream. What `params` points at must outlive the launch (or the graph)."""
        ...


def compile_options(spec: KernelSpec, arch: str) -> list[str]:
    defines = [f"-D{name}={value}" for name, value in spec.defines]
    return [f"--gpu-architecture={arch}", "--std=c++17", f"--include-path={CSRC}", *defines]


def source_fingerprint() -> str:
    """Hash of every kernel source: headers are shared, so a change of one rebuilds all."""
    digest = hashlib.sha256()
    for path in sorted([*CSRC.glob("*.cu"), *CSRC.glob("common/*.cuh")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


class CudaKernels:
    """Kernels of the current device. Compiles on first use; call `launch` once per shape before capturing a graph."""

    def __init__(self, arch: str, cache: Path | None = None) -> None:
        from cuda.bindings import driver  # only on machines with a GPU

        self._driver, self._arch = driver, arch
        self.has_warpgroups = arch == "sm_90a"
        self.has_block_scales = arch.startswith("sm_12")
        self._cooperative = self._attribute("COOPERATIVE", "cooperative", 1)
        # Blocks may take their places before the kernel before them has ended; before Hopper there is no such thing.
        can_overlap = int(arch.removeprefix("sm_").rstrip("a")) >= 90
        name = "programmaticStreamSerializationAllowed"
        self._overlapping = self._attribute("PROGRAMMATIC_STREAM_SERIALIZATION", name, int(can_overlap))
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._cache = cache or root / "kingfisher" / "kernels"
        self._sources = source_fingerprint()
        self._functions: dict[KernelSpec, Any] = {}
        self._shared_allowed: dict[KernelSpec, int] = {}

    def launch(
        self,
        spec: KernelSpec,
        grid: tuple[int, int, int],
        params: ctypes.Structure,
        *,
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        import torch

        assert isinstance(params, spec.params), f"{spec.name} takes {spec.params.__name__}"
        function = self._function(spec)
        if shared_bytes > max(STATIC_SHARED_LIMIT, self._shared_allowed.get(spec, 0)):
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._check(self._driver.cuFuncSetAttribute(function, attribute, shared_bytes), spec.name)
            self._shared_allowed[spec] = shared_bytes
        config = self._driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = spec.threads, 1, 1
        config.sharedMemBytes = shared_bytes
        config.hStream = torch.cuda.current_stream().cuda_stream
        config.attrs = [self._cooperative if cooperative else self._overlapping]
        config.numAttrs = len(config.attrs)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(params))
        self._check(self._driver.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0), spec.name)

    def _attribute(self, name: str, field: str, value: int) -> Any:
        attribute = self._driver.CUlaunchAttribute()
        attribute.id = getattr(self._driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        setattr(attribute.value, field, value)
        return attribute

    def _function(self, spec: KernelSpec) -> Any:
        if spec not in self._functions:
            image = self._image(spec)
            module = self._check(self._driver.cuModuleLoadData(image), spec.name)
            self._functions[spec] = self._check(self._driver.cuModuleGetFunction(module, spec.name.encode()), spec.name)
        return self._functions[spec]

    def _image(self, spec: KernelSpec) -> bytes:
        options = compile_options(spec, self._arch)
        key = hashlib.sha256(repr((self._sources, spec.source, options, nvrtc_version())).encode()).hexdigest()[:24]
        target = self._cache / f"{Path(spec.source).stem}-{key}.cubin"
        if target.exists():
            return target.read_bytes()
        try:
            image = compile_source((CSRC / spec.source).read_text(), spec.source, options).cubin
        except NvrtcError as error:
            raise CudaError(str(error)) from None
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            file.write(image)
        Path(file.name).rename(target)  # whole or not there: two processes may compile at once
        return image

    def _check(self, answer: tuple[Any, ...], what: str) -> Any:
        """The value of a (status, value…) answer. Raises CudaError."""
        status = answer[0]
        if int(status) != 0:
            raise CudaError(f"{what}: {status.name if hasattr(status, 'name') else status}")
        return answer[1] if len(answer) > 1 else None
