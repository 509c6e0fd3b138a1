"""Compile the C++ library of the native backend for this very CPU, once, and keep it in the user's cache.

The file's name holds a hash of the sources, the compiler and the CPU's features, so a change of any of them builds
anew. A build is written aside and renamed into place: two processes may build at once, and none sees half a file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["BuildFailed", "CompilerMissing", "build_library"]

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parents[2] / "csrc" / "cpu"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
BUILD_TIMEOUT_S = 300


class CompilerMissing(RuntimeError):
    """No C++ compiler was found; the message says what to install."""


class BuildFailed(RuntimeError):
    """The compiler refused the sources; the message holds what it said."""


def build_library() -> Path:
    """The shared library, compiled if it is not in the cache. Raises CompilerMissing, BuildFailed."""
    compiler = _find_compiler()
    target = _cache_folder() / f"kingfisher-{_fingerprint(compiler)}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    log.info("compiling the native backend for this CPU (once)")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "library.so"
        command = [compiler, *FLAGS, "-o", str(made), str(SOURCES / "api.cpp")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise BuildFailed(f"{compiler} did not finish within {BUILD_TIMEOUT_S} s") from None
        if done.returncode:
            raise BuildFailed(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        made.rename(target)
    return target


def _find_compiler() -> str:
    for name in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        if found := shutil.which(name):
            return found
    raise CompilerMissing("the native backend needs a C++ compiler (Debian: apt-get install g++)")


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kingfisher"


def _fingerprint(compiler: str) -> str:
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    digest.update(repr((compiler, version, FLAGS, platform.machine(), _cpu_features())).encode())
    return digest.hexdigest()[:20]


def _cpu_features() -> str:
    """What `-march=native` looks at; the cache may lie on a disk that several machines share."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
