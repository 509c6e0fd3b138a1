"""The vendors' conversations are on the wire as they were."""

from __future__ import annotations

import json

import pytest

from tests.golden.wire.vendors import CONVERSATIONS, FOLDER, conversation


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_conversation_is_as_it_was(name: str) -> None:
    assert conversation(name) == json.loads((FOLDER / f"{name}.json").read_text())
