"""Bytes to messages: whatever the bytes are, the outcome is one of four that are documented."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from realtime.errors import Malformed, TextFrame, TooBig
from realtime.protocol.fish import messages
from realtime.protocol.fish.replies import Audio, Finish
from realtime.protocol.fish.request import parse_request
from realtime.protocol.fish.wire import decode, encode

LIMIT = 1 << 20


def pack(**fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pack(event="flush"), messages.Flush()),
        (pack(event="stop"), messages.Stop()),
        (pack(event="text", text="Hello "), messages.Text("Hello ")),
        (pack(event="cancel"), messages.Cancel(None)),
        (pack(event="cancel", played_ms=1250), messages.Cancel(1250.0)),
        (pack(event="ping", id="a1"), messages.Ping("a1")),
        (pack(event="start"), messages.Start()),
        (pack(event="start", debug=True), messages.Start(debug=True)),
    ],
)
def test_each_event_is_read(frame: bytes, message: messages.ClientMessage) -> None:
    assert decode(frame, LIMIT) == message


def test_a_request_waits_for_whoever_reads_it() -> None:
    start = decode(pack(event="start", request={"format": "pcm"}), LIMIT)
    assert isinstance(start, messages.Start)
    assert parse_request(start.request) == parse_request({"format": "pcm"})


@pytest.mark.parametrize("many", [[[]] * 1_000_000, {str(number): None for number in range(100_000)}])
@pytest.mark.parametrize("where", ["message", "request"])
def test_what_is_not_read_never_becomes_an_object(many: object, where: str) -> None:
    """Objects by the million hold the event loop for seconds, while they are made and while they are collected."""
    frame = pack(event="start", **({"x": many} if where == "message" else {"request": {"x": many}}))
    tracemalloc.start()
    try:
        start = decode(frame, 1 << 24)
        assert isinstance(start, messages.Start)
        parse_request(start.request)
        assert tracemalloc.get_traced_memory()[1] < len(frame) + 100_000
    finally:
        tracemalloc.stop()


def test_null_means_the_default_and_unknown_fields_are_ignored() -> None:
    assert decode(pack(event="text", text=None, context_id="c"), LIMIT) == messages.Text(None)
    assert decode(pack(event="cancel", played_ms=None), LIMIT) == messages.Cancel(None)


@pytest.mark.parametrize("event", ["", "START", "speak", "words", "audio"])
def test_unknown_events_are_ignored(event: str) -> None:
    assert decode(pack(event=event, text=5), LIMIT) is None


MALFORMED = {
    "nothing": b"",
    "truncated": pack(event="text", text="Hello")[:-1],
    "surplus bytes": pack(event="flush") + b"\xc0",
    "reserved byte": b"\xc1",
    "nil": b"\xc0",
    "list": b"\x91\x01",
    "integer": b"\x2a",
    "empty map": b"\x80",
    "event is a number": pack(event=42),
    "event is null": pack(event=None),
    "no event": pack(text="Hello"),
    "text is a number": pack(event="text", text=5),
    "text is bytes": pack(event="text", text=b"Hello"),
    "text is no utf-8": b"\x82\xa5event\xa4text\xa4text\xa2\xff\xfe",
    "key is a number": b"\x82\xa5event\xa4text\x01\x02",
    "key is a map": b"\x81\x80\x02",
    "nested 5000 deep": b"\x81\xa1x" + b"\x91" * 5_000 + b"\xc0",
    "nested ping id": b"\x82\xa5event\xa4ping\xa2id" + b"\x91" * 300 + b"\xc0",
    "map claiming 4 G entries": b"\xdf\xff\xff\xff\xff",
    "list claiming 4 G entries": b"\xdd\xff\xff\xff\xff",
    "string claiming 4 GB": b"\xdb\xff\xff\xff\xff",
    "extension type": b"\xd4\x05\x01",
    "extension as an id": b"\x82\xa5event\xa4ping\xa2id\xd4\x05\x01",
    "bad timestamp": b"\x82\xa5event\xa4ping\xa2id\xc7\x0c\xff" + b"\xff" * 12,
}


@pytest.mark.parametrize("frame", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_message_is_refused_by_name(frame: bytes) -> None:
    with pytest.raises(Malformed):
        decode(frame, LIMIT)


def test_the_last_of_duplicate_keys_counts() -> None:
    frame = b"\x83\xa5event\xa4text\xa4text\xa1a\xa4text\xa1b"
    assert decode(frame, LIMIT) == messages.Text("b")


def test_text_frames_are_refused() -> None:
    with pytest.raises(TextFrame):
        decode('{"event": "flush"}', LIMIT)


def test_the_size_limit_is_exact_and_named() -> None:
    frame = pack(event="text", text="x" * 100)
    assert decode(frame, len(frame)) == messages.Text("x" * 100)
    with pytest.raises(TooBig, match=f"{len(frame)} bytes; at most {len(frame) - 1}"):
        decode(frame, len(frame) - 1)


def test_a_field_that_is_unset_is_left_out() -> None:
    finish = Finish(reason="stop", time=1.0, usage={}, ttfa_ms=None)
    assert msgspec.msgpack.decode(encode(finish)) == {
        "event": "finish",
        "reason": "stop",
        "time": 1.0,
        "usage": {},
        "ttfa_ms": None,
    }
    audio = Audio(time=1.0, utterance=1, seq=0, pts_ms=0.0, duration_ms=20.0, packets=(b"a", b"b"))
    assert "audio" not in msgspec.msgpack.decode(encode(audio))
