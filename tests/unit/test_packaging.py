"""What `pip install` puts into place is all that the server reads, not only its Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from realtime.server.app import PAGE_PARTS

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "realtime", "csrc", "clients")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "node_modules", "*.egg-info", "*.safetensors")
"""Weights are 50 MB; what stands for them here is any other file of the voice."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that would be put into site-packages."""
    tree, built = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("built")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tree / name, ignore=NOT_COPIED)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree)
    subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "build_py", "--build-lib", str(built)],
        cwd=tree,
        check=True,
        timeout=120,
    )
    return built


@pytest.mark.parametrize("folder", ["csrc", "engine", "realtime", *(f"clients/js/{part}" for part in PAGE_PARTS)])
def test_every_file_is_installed_where_it_is_read(installed: Path, folder: str) -> None:
    files = {
        path.relative_to(ROOT)
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".safetensors", ".md")
    }
    assert files
    assert sorted(files - {path.relative_to(installed) for path in installed.rglob("*")}) == []


def test_the_page_and_the_clients_are_installed(installed: Path) -> None:
    for file in ("clients/js/demo.html", "clients/js/kingfisher.js", "kingfisher_client/__init__.py"):
        assert (installed / file).is_file()


def test_what_only_developers_need_is_not_installed(installed: Path) -> None:
    assert not [path for path in installed.rglob("*") if path.parent.name == "test" or path.name == "package.json"]
    assert not (installed / "tests").exists()
