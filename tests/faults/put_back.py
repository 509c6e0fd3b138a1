"""Puts faults back and shows that their tests fail: python -m tests.faults.put_back [GROUP or NUMBER …]

Each runs in a copy of the tree, first as it is (the test must pass) and then with one line changed (it must fail).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.breaks import FAULTS

ROOT = Path(__file__).parents[2]


def passes(tree: Path, test: str) -> bool:
    # The package may be installed from another tree: this one comes first.
    paths = os.pathsep.join([str(tree), str(tree / "clients" / "python")])
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    run = subprocess.run(command, cwd=tree, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert run.returncode in (0, 1), f"{test} could not be run:\n{run.stdout}{run.stderr}"
    return run.returncode == 0


def copy_tree(target: Path) -> None:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def main(wanted: list[str]) -> int:
    is_shown = True
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        for fault in FAULTS:
            if wanted and not {fault.group, str(fault.number)} & set(wanted):
                continue
            path = tree / fault.file
            whole = path.read_text()
            assert whole.count(fault.right) == 1, f"{fault.file} holds {fault.right!r} {whole.count(fault.right)} times"
            before = passes(tree, fault.test)
            path.write_text(whole.replace(fault.right, fault.wrong))
            after = passes(tree, fault.test)
            path.write_text(whole)
            is_shown = is_shown and before and not after
            verdict = "shown" if before and not after else "NOT SHOWN"
            print(f"{fault.group} fault {fault.number}: {verdict} (right: {before}, put back: {after})", flush=True)
    return 0 if is_shown else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
