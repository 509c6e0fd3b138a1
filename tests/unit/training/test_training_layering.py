"""Nothing that serves speech imports the training pipeline, and its commands start without its packages."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine.training.__main__ import main

ROOT = Path(__file__).parents[3]


def test_only_the_pipeline_imports_the_pipeline() -> None:
    for path in [*ROOT.glob("engine/**/*.py"), *ROOT.glob("realtime/**/*.py"), *ROOT.glob("clients/python/**/*.py")]:
        if "training" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("engine.training") for name in names), path


@pytest.mark.parametrize("command", ["data", "codec", "codes", "dualar", "export", "grid", "evaluate"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"engine.training {command}" in capsys.readouterr().out


def test_a_command_without_what_it_needs_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["codec"])
    assert ended.value.code == 2
    assert "--data" in capsys.readouterr().err
