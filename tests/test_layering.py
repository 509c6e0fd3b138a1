"""Who may import what (DESIGN.md, "Layers"). An AST walk over the two packages: no import is run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Module prefix -> top-level names (or our own module prefixes) it must not import. The longest prefix wins.
FORBIDDEN: dict[str, set[str]] = {
    "engine": {"asyncio", "starlette", "uvicorn", "websockets", "msgspec", "opuslib", "realtime"},
    "engine.api": {"torch", "asyncio", "realtime", "engine"},
    "engine.config": {"torch", "asyncio", "realtime", "engine.backends", "engine.model", "engine.codec"},
    "engine.tokenizer": {"torch", "realtime", "engine.backends", "engine.model"},
    "engine.prompt": {"torch", "realtime", "engine.backends", "engine.model"},
    "engine.model": {"asyncio", "realtime", "engine.backends", "engine.cuda", "engine.runner"},
    "engine.codec": {"asyncio", "realtime", "engine.backends", "engine.cuda", "engine.runner"},
    "engine.quant": {"asyncio", "realtime", "engine.backends", "engine.cuda", "engine.runner"},
    "engine.null": {"torch", "asyncio", "realtime"},
    "engine.native_build": {"torch", "numpy", "asyncio", "realtime", "engine"},
    "realtime.protocol": {
        "asyncio",
        "time",
        "threading",
        "torch",
        "engine",
        "starlette",
        "uvicorn",
        "opuslib",
        "realtime.server",
        "realtime.runtime",
        "realtime.scheduler",
    },
    "realtime.text": {"asyncio", "time", "threading", "torch", "engine", "opuslib", "realtime.protocol"},
    "realtime.audio": {"asyncio", "time", "threading", "torch", "engine", "opuslib"},
    "realtime.audio.opus": {  # engine.native_build alone
        "asyncio",
        "time",
        "threading",
        "torch",
        "engine.api",
        "engine.backends",
        "engine.codec",
        "engine.cuda",
        "engine.load",
        "engine.model",
        "engine.runner",
    },
    "realtime.voices": {"torch", "starlette", "uvicorn", "engine.runner", "engine.backends", "realtime.server"},
    "realtime.scheduler": {
        "asyncio",
        "threading",
        "time",
        "torch",
        "engine.runner",
        "engine.backends",
        "realtime.runtime",
        "realtime.server",
        "realtime.protocol",
    },
    "realtime.runtime": {
        "starlette",
        "uvicorn",
        "torch",
        "engine.runner",
        "engine.backends",
        "realtime.server",
    },
    "realtime.server": {"torch", "engine.runner", "engine.backends", "engine.model", "engine.codec"},
}


def modules() -> list[tuple[str, Path]]:
    found = []
    for package in ("engine", "realtime"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "assets" not in path.parts:
                parts = path.relative_to(ROOT).with_suffix("").parts
                found.append((".".join(parts).removesuffix(".__init__"), path))
    return found


def imports_of(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rules_for(module: str) -> set[str]:
    prefixes = [p for p in FORBIDDEN if module == p or module.startswith(p + ".")]
    return FORBIDDEN[max(prefixes, key=len)] if prefixes else set()


@pytest.mark.parametrize(("module", "path"), modules(), ids=[m for m, _ in modules()])
def test_imports_stay_in_their_layer(module: str, path: Path) -> None:
    tree = ast.parse(path.read_text())
    broken = {
        name
        for name in imports_of(tree)
        for banned in rules_for(module)
        if name == banned or name.startswith(banned + ".")
    }
    assert not broken, f"{module} must not import {sorted(broken)}"


@pytest.mark.parametrize(("module", "path"), modules(), ids=[m for m, _ in modules()])
def test_no_global_statement_and_no_file_over_400_lines(module: str, path: Path) -> None:
    source = path.read_text()
    lines = source.count("\n")
    assert lines <= 400, f"{path.relative_to(ROOT)} has {lines} lines; split it by reason to change"
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Global)]
    assert not nodes, f"{module}: mutable module state (line {nodes[0].lineno if nodes else 0}); pass it instead"
