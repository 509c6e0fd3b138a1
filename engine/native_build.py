"""Compile a C++ library of csrc/ for this very CPU, once, and keep it in the user's cache.

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

SOURCES = Path(__file__).parents[1] / "csrc"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
BUILD_TIMEOUT_S = 300


class CompilerMissing(RuntimeError):
    """No C++ compiler was found; the message says what to install."""


class BuildFailed(RuntimeError):
    """The compiler refused the sources; the message holds what it said."""


def build_library(source: str) -> Path:
    """The shared library of this file in csrc/, compiled if it is not in the cache. It may include what lies beside it.
    Raises CompilerMissing, BuildFailed."""
    path = SOURCES / source
    compiler = _find_compiler()
    target = _cache_folder() / f"kingfisher-{path.parent.name}-{_fingerprint(compiler, path.parent)}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    log.info("compiling %s for this CPU (once)", source)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "library.so"
        command = [compiler, *FLAGS, "-o", str(made), str(path)]
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
    raise CompilerMissing("native code needs a C++ compiler (Debian: apt-get install g++)")


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kingfisher"


def _fingerprint(compiler: str, folder: Path) -> str:
    digest = hashlib.sha256()
    for source in sorted(folder.iterdir()):
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
