"""FACTS.md names each fact about clients once, and the tests it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.named_tests import assert_named_tests_exist

PAGE = Path(__file__).parent / "FACTS.md"
ROWS = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]


def test_every_fact_has_one_row() -> None:
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 17))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_the_laws_of_a_fact_are_there(row: str) -> None:
    assert_named_tests_exist(row.split("|")[4])
