"""Frames of the server -> events of the Python client."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kingfisher_client import (
    Audio,
    Cancelled,
    Finish,
    Flushed,
    ProtocolError,
    Ready,
    ServerError,
    StreamError,
    Warning,
)
from kingfisher_client.wire import pack, parse

encode = msgspec.msgpack.encode
WIRE = Path(__file__).parents[2] / "golden" / "wire" / "vectors.json"


def vectors(direction: str) -> list[dict[str, Any]]:
    """The messages that the server is tested with, and their bytes."""
    return json.loads(WIRE.read_text())[direction]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            {"event": "ready", "voice": "rowan", "sample_rate": 24000, "request_id": "1-a", "frame_ms": 40},
            Ready("rowan", 24000, "1-a", {}),
        ),
        (
            {"event": "audio", "audio": b"ab", "utterance": 2, "seq": 3, "pts_ms": 40.0, "duration_ms": 20.0},
            Audio(2, 3, 40.0, 20.0, b"ab"),
        ),
        ({"event": "audio", "packets": [b"a", b"b"], "duration_ms": 40.0}, Audio(0, 0, 0.0, 40.0, b"", (b"a", b"b"))),
        ({"event": "flushed", "seq": 1, "audio_ms": 5.5}, Flushed(1, 5.5)),
        (
            {"event": "cancelled", "utterance": 1, "spoken_text": "a", "remaining_text": "b", "audio_ms": 1.0},
            Cancelled(1, "a", "b", 1.0),
        ),
        ({"event": "warning", "code": "unknown_voice", "message": "m"}, Warning("unknown_voice", "m")),
        (
            {"event": "finish", "reason": "stop", "time": 9.0, "usage": {"chars": 1}, "ttfa_ms": None},
            Finish({"chars": 1}, None, 9.0),
        ),
    ],
)
def test_each_event_is_read(message: dict[str, object], event: object) -> None:
    assert parse(encode(message)) == event


@pytest.mark.parametrize(
    "message",
    [
        {"event": "audio"},
        {"event": "audio", "audio": None},
        {"event": "audio", "audio": b""},
        {"event": "audio", "packets": []},
        {"event": "pong", "id": 1},
        {"event": "log", "message": "m"},
        {"event": "of a later server", "field": 1},
    ],
)
def test_audio_without_sound_and_unknown_events_are_skipped(message: dict[str, object]) -> None:
    assert parse(encode(message)) is None


@pytest.mark.parametrize(
    ("message", "code", "is_finish"),
    [
        ({"event": "finish", "reason": "error", "code": "overloaded", "message": "m"}, "overloaded", True),
        ({"event": "finish", "reason": "error"}, "error", True),
        ({"event": "error", "error": "m", "code": "malformed"}, "malformed", False),
        ({"event": "of a later server", "error": "quota used up"}, "error", False),
    ],
)
def test_every_kind_of_no_is_an_error(message: dict[str, object], code: str, is_finish: bool) -> None:
    with pytest.raises(ServerError) as caught:
        parse(encode(message))
    assert (caught.value.code, caught.value.is_finish) == (code, is_finish)


@pytest.mark.parametrize("frame", ["text", b"\xc1", b"", encode([1]), encode("event")])
def test_what_is_no_event_is_a_protocol_error(frame: bytes | str) -> None:
    with pytest.raises(ProtocolError):
        parse(frame)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1 << 40) | st.floats() | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
NAMES = st.sampled_from(["ready", "audio", "flushed", "cancelled", "warning", "finish", "error", "other"])
FIELDS = st.sampled_from(["voice", "limits", "audio", "packets", "utterance", "pts_ms", "reason", "code", "error"])


@given(frame=st.binary())
def test_no_bytes_raise_anything_else(frame: bytes) -> None:
    with suppress(StreamError):
        parse(frame)


@given(name=NAMES, fields=st.dictionaries(FIELDS, VALUES))
def test_no_field_of_a_wrong_type_raises_anything_else(name: str, fields: dict[str, object]) -> None:
    with suppress(StreamError):
        parse(encode({**fields, "event": name}))


@pytest.mark.parametrize("vector", vectors("from_server"), ids=lambda vector: vector["name"])
def test_the_servers_own_vectors_are_understood(vector: dict[str, Any]) -> None:
    sent, frame = vector["message"], bytes.fromhex(vector["hex"])
    if sent["event"] == "error" or sent.get("reason") == "error":
        with pytest.raises(ServerError) as caught:
            parse(frame)
        assert caught.value.code == sent["code"]
    elif sent["event"] in ("pong", "log"):
        assert parse(frame) is None
    else:
        assert type(parse(frame)).__name__.lower() == sent["event"]


@pytest.mark.parametrize("vector", vectors("from_client"), ids=lambda vector: vector["name"])
def test_what_is_packed_is_what_the_server_reads(vector: dict[str, Any]) -> None:
    message = msgspec.msgpack.decode(bytes.fromhex(vector["hex"]))
    assert msgspec.msgpack.decode(pack(**message)) == message


def test_fields_travel_as_given() -> None:
    assert msgspec.msgpack.decode(pack("cancel", played_ms=None)) == {"event": "cancel", "played_ms": None}
