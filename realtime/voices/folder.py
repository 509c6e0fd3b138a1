"""Small files that are there whole or not at all, whatever kills the process: written aside, synced, then renamed."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Folder"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""A name is never joined to a path unless it matches this whole pattern."""

_ASIDE = ".part"


class Folder:
    """One kind of file, by name. The folder is made at the first write."""

    def __init__(self, path: Path, suffix: str) -> None:
        self.path, self._suffix = path, suffix

    def read_all(self) -> Iterator[tuple[str, bytes]]:
        """(name, bytes) of every file, oldest first; what a killed process left half written is removed."""
        if not self.path.is_dir():
            return
        for left in self.path.glob(f"*{_ASIDE}"):
            left.unlink(missing_ok=True)
        for path in sorted(self.path.glob(f"*{self._suffix}"), key=lambda p: p.lstat().st_mtime_ns):
            if not path.is_symlink() and path.is_file() and NAME.fullmatch(path.stem):
                yield path.stem, path.read_bytes()

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        try:
            return None if path.is_symlink() else path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Raises OSError; then the file is as it was."""
        path = self._path(name)
        self.path.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(suffix=_ASIDE, dir=self.path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
        self._sync()

    def remove(self, name: str) -> None:
        """Raises OSError; one that is not there is removed already."""
        self._path(name).unlink(missing_ok=True)
        if self.path.is_dir():
            self._sync()

    def keep_newest(self, count: int) -> None:
        """Remove the oldest files beyond so many."""
        paths = sorted(self.path.glob(f"*{self._suffix}"), key=lambda p: p.lstat().st_mtime_ns)
        for path in paths[: max(0, len(paths) - count)]:
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is no name")
        return self.path / f"{name}{self._suffix}"

    def _sync(self) -> None:
        """The rename itself is on disk."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
