"""The examples in the clients' README files run as they stand, against the real server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import ROOT, ServerProcess, server_process

ADDRESS = "ws://127.0.0.1:8000/v1/tts/live"


def examples(readme: str, language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / readme).read_text(), re.DOTALL)
    return [example for example in found if ADDRESS in example]


PYTHON = examples("clients/python/README.md", "python")
NODE = examples("clients/js/README.md", "js")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with server_process("--model", "null") as running:
        yield running


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python")}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_readmes_have_examples() -> None:
    assert (len(PYTHON), len(NODE)) == (4, 2)


@pytest.mark.parametrize("example", PYTHON, ids=range(len(PYTHON)))
def test_python_example(server: ServerProcess, tmp_path: Path, example: str) -> None:
    script = tmp_path / "example.py"
    script.write_text(example.replace(ADDRESS, server.ws))
    assert run([sys.executable, "-W", "error", str(script)], tmp_path)


@pytest.mark.parametrize("example", NODE, ids=range(len(NODE)))
def test_javascript_example(server: ServerProcess, tmp_path: Path, example: str) -> None:
    """With the package as npm installs it: what it does not name among its files is not there."""
    (tmp_path / "node_modules").mkdir()
    packed = run(["npm", "pack", "--silent", "--pack-destination", str(tmp_path), str(ROOT / "clients/js")], tmp_path)
    shutil.unpack_archive(tmp_path / packed.strip(), tmp_path)
    (tmp_path / "package").rename(tmp_path / "node_modules" / "kingfisher-client")
    (tmp_path / "node_modules" / "ws").symlink_to(ROOT / "clients/js/node_modules/ws")
    script = tmp_path / "example.mjs"
    script.write_text(example.replace(ADDRESS, server.ws))
    assert run(["node", str(script)], tmp_path)
