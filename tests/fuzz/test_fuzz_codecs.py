"""Every parser under a coverage-guided fuzzer (marker `fuzz`): ten minutes each, or FUZZ_S seconds.

nice python -m pytest -m fuzz tests/fuzz
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS, seeds

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("FUZZ_S", "600"))


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_break_no_law(target: str) -> None:
    for seed in seeds(target):
        TARGETS[target](seed)
        for cut in range(0, len(seed), max(1, len(seed) // 50)):
            TARGETS[target](seed[:cut])


@pytest.mark.fuzz
@pytest.mark.parametrize("target", TARGETS)
def test_no_input_breaks_a_law(target: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", target, str(SECONDS), str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'clients' / 'python'}"},
        capture_output=True,
        text=True,
        timeout=SECONDS + 300,
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-4_000:]
