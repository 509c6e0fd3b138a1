"""The bodies of Fish's and OpenAI's HTTP routes are as they were."""

from __future__ import annotations

import json

from tests.golden.wire.http import PATH, document


def test_the_bodies_are_as_they_were() -> None:
    assert document() == json.loads(PATH.read_text())
