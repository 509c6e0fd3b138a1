"""The bytes on the wire are as they were, and the documents say what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from realtime import errors
from realtime.protocol.fish import replies
from realtime.protocol.fish.request import FORMATS, PCM_RATES_HZ
from realtime.protocol.fish.wire import _KINDS, decode
from tests.golden.wire.vectors import FROM_CLIENT, FROM_SERVER, PATH, document

GOLDEN = json.loads(PATH.read_text())
PAGE = (Path(__file__).parents[4] / "clients" / "PROTOCOL.md").read_text()


def leaves(kind: type[errors.Refusal]) -> list[type[errors.Refusal]]:
    below = [leaf for child in kind.__subclasses__() for leaf in leaves(child)]
    return below or [kind]


def test_the_wire_is_as_it_was() -> None:
    assert document() == GOLDEN


@pytest.mark.parametrize("vector", GOLDEN["from_client"], ids=lambda vector: vector["name"])
def test_every_client_vector_is_understood(vector: dict[str, str]) -> None:
    assert decode(bytes.fromhex(vector["hex"]), 1 << 20) is not None


def test_there_is_a_vector_for_every_event() -> None:
    assert {message["event"] for message in FROM_CLIENT.values()} == set(_KINDS)
    assert {type(reply) for reply in FROM_SERVER.values()} == set(replies.Reply.__subclasses__())


@pytest.mark.parametrize(
    "event", sorted(_KINDS) + sorted(r.__struct_config__.tag for r in replies.Reply.__subclasses__())
)
def test_every_event_has_its_row_in_the_protocol_page(event: str) -> None:
    assert re.search(rf"^\| `{event}` \*\*[FK]\*\* \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("reply", replies.Reply.__subclasses__(), ids=lambda reply: reply.__name__)
def test_every_field_is_in_its_events_row(reply: type[replies.Reply]) -> None:
    row = re.search(rf"^\| `{reply.__struct_config__.tag}` .*$", PAGE, re.MULTILINE)
    assert row is not None
    missing = [name for name in reply.__struct_fields__ if f"`{name}`" not in row[0] and f"`{name}{{" not in row[0]]
    assert not missing


@pytest.mark.parametrize("error", leaves(errors.Refusal), ids=lambda error: error.__name__)
def test_every_error_code_is_in_the_protocol_page(error: type[errors.Refusal]) -> None:
    several = {
        errors.Unavailable: ["overloaded", "draining", "not_ready"],
        errors.EngineFault: ["internal", "overloaded"],
    }
    codes = several.get(error) or [error.code]
    for code in codes:
        assert f"`{code}`" in PAGE
    if issubclass(error, errors.ConnectionFault):
        assert re.search(rf"^\| `{error.code}` \| {error.close_code} \|", PAGE, re.MULTILINE)


def test_the_page_lists_formats_and_rates() -> None:
    for name in FORMATS:
        assert f"`{name}`" in PAGE
    assert ", ".join(map(str, PCM_RATES_HZ)) in PAGE
