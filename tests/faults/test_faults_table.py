"""tests/FAULTS.md names every reported fault once, and the tests it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.breaks import FAULTS, Fault
from tests.named_tests import assert_named_tests_exist

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
ROWS = [line for line in (TESTS / "FAULTS.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]

NUMBERS = (
    "1 3 4 6 8 10 11 12 14 15 16 17 20 21 22 24 25 27 28 31 33 34 36 37 39 40 43 44 46 48 50 51 53 54 56 57 58 60 62 "
    "63 64 65 67 68 70 71 73 74 75 77 78 80 81 82 84 85 87 88 90 91 93 94 96 97 98 100 101 104 105 106 108 109"
)


def test_every_reported_fault_has_one_row() -> None:
    assert [int(row.split("|")[1]) for row in ROWS] == [int(number) for number in NUMBERS.split()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_the_tests_it_names_are_there(row: str) -> None:
    assert_named_tests_exist(row.split("|")[2])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.group}{fault.number}")
def test_a_fault_can_still_be_put_back_where_it_was(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text().count(fault.right) == 1
    path, name = fault.test.split("::")
    assert re.search(rf"def {name}\(|^{name} = ", (ROOT / path).read_text(), re.MULTILINE)
