"""The clients people have, installed as they install them: each set in an environment of its own.

packages/NAME.in says what a set is for, packages/NAME.txt pins all of it (`uv pip compile --python-version 3.11
--no-header --no-annotate NAME.in -o NAME.txt`); packages/node has package.json and its lock. The folder is kept between
runs; KINGFISHER_CLIENTS_DIR names it, ~/.cache/kingfisher-clients is its default. An environment that was not completed
is made anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["node_folder", "python_of"]

PACKAGES = Path(__file__).parent / "packages"
INSTALL_DEADLINE_S = 600


def _home() -> Path:
    named = os.environ.get("KINGFISHER_CLIENTS_DIR")
    return Path(named) if named else Path.home() / ".cache" / "kingfisher-clients"


@cache
def python_of(name: str) -> Path:
    """The interpreter of the environment that packages/NAME.txt describes."""
    listed = PACKAGES / f"{name}.txt"
    folder = _folder(name, listed)
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        # uv links the files that the sets share, so they take their room once.
        _run(sys.executable, "-m", "uv", "venv", "--python", sys.executable, str(folder))
        _run(sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--python", str(python), "-r", str(listed))
        (folder / "complete").touch()
    return python


@cache
def node_folder() -> Path:
    """The folder whose node_modules packages/node/package-lock.json describes."""
    listed = PACKAGES / "node"
    folder = _folder("node", listed / "package-lock.json")
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(listed, folder)
        _run("npm", "ci", "--no-audit", "--no-fund", "--silent", cwd=folder)
        (folder / "complete").touch()
    return folder


def _folder(name: str, listed: Path) -> Path:
    """Another list of packages is another environment."""
    return _home() / f"{name}-{hashlib.sha256(listed.read_bytes()).hexdigest()[:12]}"


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
