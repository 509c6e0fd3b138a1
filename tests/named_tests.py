"""Tables in Markdown that name tests: is what they name there?"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["assert_named_tests_exist"]

ROOT = Path(__file__).parent.parent


def assert_named_tests_exist(cell: str) -> None:
    """`cell` names files below tests/ ("…" and "*" stand for anything; js/ for clients/js/test/), each followed by
    parts of the names of tests in it, in backquotes."""
    named = re.findall(r"([\w/…*-]*[\w*](?:\.test)?\.(?:py|js))((?:,? `[^`]+`)*)", cell)
    assert named, f"no test is named in {cell!r}"
    for path, names in named:
        pattern = path.replace("…", "**")
        pattern = pattern.replace("js/", "clients/js/test/") if path.startswith("js/") else f"tests/{pattern}"
        files = list(ROOT.glob(pattern))
        assert files, f"there is no {path}"
        text = "\n".join(file.read_text() for file in files)
        for name in re.findall(r"`([^`]+)`", names):
            assert re.search(re.escape(name).replace("…", ".*"), text), f"{path} has no {name}"
