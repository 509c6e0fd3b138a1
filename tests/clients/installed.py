"""The clients people have, installed as they install them: pinned, each set in an environment of its own.

The folder is kept between runs; KINGFISHER_CLIENTS_DIR names it, ~/.cache/kingfisher-clients is its default.
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
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "-r", str(listed))
        (folder / "complete").touch()
    return python


@cache
def node_folder() -> Path:
    """The folder whose node_modules packages/node/package.json describes."""
    listed = PACKAGES / "node" / "package.json"
    folder = _folder("node", listed)
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(listed, folder)
        _run("npm", "install", "--no-audit", "--no-fund", "--silent", cwd=folder)
        (folder / "complete").touch()
    return folder


def _folder(name: str, listed: Path) -> Path:
    """Another list of packages is another environment."""
    return _home() / f"{name}-{hashlib.sha256(listed.read_bytes()).hexdigest()[:12]}"


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
