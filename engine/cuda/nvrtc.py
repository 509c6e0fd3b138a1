"""NVRTC: a kernel's source to machine code.

It needs the compiler's library and no GPU, so CI checks with it that the kernels compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Compiled", "NvrtcError", "compile_source", "nvrtc_version"]


class NvrtcError(RuntimeError):
    """The compiler refused something; the message holds what it said."""


@dataclass(frozen=True, slots=True)
class Compiled:
    cubin: bytes
    log: str
    """What the compiler said: warnings, and what the options asked it to tell."""


def nvrtc_version() -> tuple[int, int]:
    from cuda.bindings import nvrtc

    status, major, minor = nvrtc.nvrtcVersion()
    _check((status,), "nvrtc")
    return major, minor


def compile_source(source: str, name: str, options: Sequence[str]) -> Compiled:
    """One translation unit; `name` is what messages call it. Raises NvrtcError."""
    from cuda.bindings import nvrtc  # only where the extra `gpu` or `dev` is installed

    program = _check(nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []), name)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        # Into bytearrays: bytes of length 1, as an empty log's, are shared by the whole process.
        told = bytearray(_check(nvrtc.nvrtcGetProgramLogSize(program), name))
        _check(nvrtc.nvrtcGetProgramLog(program, told), name)
        log = told.rstrip(b"\0").decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise NvrtcError(f"{name} does not compile:\n{log}")
        image = bytearray(_check(nvrtc.nvrtcGetCUBINSize(program), name))
        _check(nvrtc.nvrtcGetCUBIN(program, image), name)
        return Compiled(bytes(image), log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _check(answer: tuple[Any, ...], what: str) -> Any:
    """The value of a (status, value…) answer. Raises NvrtcError."""
    if int(answer[0]) != 0:
        raise NvrtcError(f"{what}: {answer[0].name}")
    return answer[1] if len(answer) > 1 else None
