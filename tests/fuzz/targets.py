"""What is fuzzed: each target takes any bytes and raises only where a law is broken."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from kingfisher_client.errors import ProtocolError, ServerError
from kingfisher_client.wire import parse

from engine.api import BadReference
from engine.codec.audio_file import decode_clip
from realtime.errors import BadRequest, ConnectionFault, Internal, Malformed, TooBig
from realtime.protocol.dialect import Shut
from realtime.protocol.fish.messages import Start
from realtime.protocol.fish.request import parse_request
from realtime.protocol.fish.wire import decode
from tests.dialect_talk import DialectTalk
from tests.fuzz.http_targets import HTTP_TARGETS, http_seeds
from tests.fuzz.text_targets import TEXT_SEEDS, TEXT_TARGETS
from tests.golden.wire.vendors import CONVERSATIONS
from tests.session_talk import Talk

__all__ = ["TARGETS", "seeds"]

MAX_BYTES = 1 << 16
VECTORS = Path(__file__).parents[1] / "golden" / "wire" / "vectors.json"


def server_wire(data: bytes) -> None:
    """The four documented outcomes, and no other."""
    try:
        decode(data, MAX_BYTES)
    except (Malformed, TooBig) as fault:
        assert 0 < len(str(fault)) < 2_000, "an error repeats what was sent"


def request(data: bytes) -> None:
    """`start.request`, with a valid map around it as often as the bytes allow."""
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return
    try:
        parse_request(value)
    except BadRequest as fault:
        assert len(str(fault)) < 2_000, "an error repeats what was sent"


def client_wire(data: bytes) -> None:
    with suppress(ProtocolError, ServerError):
        parse(data)


def session(data: bytes) -> None:
    """Frames with their length before them, engine work and clock ticks, in any order: a start has one answer at most,
    and after its end the session is silent."""
    talk = Talk(max_stream_chars=1_000)
    starts = 0
    while data:
        kind, data = data[0] % 8, data[1:]
        if kind < 4:
            size = int.from_bytes(data[:2], "little") % 512
            frame, data = data[2 : 2 + size], data[2 + size :]
            frame = frame if kind else _polite(frame)
            starts += _is_start(frame)
            talk.send_raw(frame)
        elif kind == 4:
            talk.run()
        elif kind == 5:
            talk.make()
        elif kind == 6:
            talk.deliver()
        else:
            talk.wait(1.0)
    assert len(talk.named("finish")) <= starts
    talk.dialect.give_up(Internal("over"), 1011, talk.now)
    talk.pump()
    said = len(talk.replies)
    talk.run()
    talk.send("ping")
    assert len(talk.replies) == said


def _is_start(frame: bytes) -> bool:
    try:
        return isinstance(decode(frame, MAX_BYTES), Start)
    except ConnectionFault:
        return False


def _polite(data: bytes) -> bytes:
    """A message that is well formed; its fields come from the bytes."""
    event = ("start", "text", "flush", "stop", "cancel", "ping")[data[0] % 6] if data else "flush"
    text = data[1:].decode("utf-8", "ignore")
    fields: dict[str, Any] = {"start": {"request": {"text": text}}, "text": {"text": text}}.get(event, {})
    return msgspec.msgpack.encode({"event": event, **fields})


def vendors(data: bytes) -> None:
    """Lines are text frames of one vendor's dialect, and an empty one lets the engine work. Nothing is raised, the
    socket is shut once, and then it is silent."""
    names = sorted(CONVERSATIONS)
    talk = DialectTalk(CONVERSATIONS[names[data[0] % len(names)] if data else names[0]][0])
    for line in data[1:].split(b"\n"):
        if line:
            talk.dialect.receive(line.decode("utf-8", "ignore"), talk.now)
            talk.pump()
        else:
            talk.run()
    talk.dialect.give_up(Internal("over"), 1011, talk.now)
    talk.pump()
    talk.run()
    assert sum(isinstance(item, Shut) for item in talk.heard) == 1
    assert isinstance(talk.heard[-1], Shut)


def clip(data: bytes) -> None:
    try:
        mono = decode_clip(data, 24_000)
    except BadReference as fault:
        assert str(fault)
    else:
        assert 24_000 <= len(mono) <= 31 * 24_000


TARGETS: dict[str, Callable[[bytes], None]] = (
    {target.__name__: target for target in (server_wire, request, client_wire, session, vendors, clip)}
    | TEXT_TARGETS
    | HTTP_TARGETS
)


def seeds(target: str) -> list[bytes]:
    """Inputs to begin with."""
    if target in HTTP_TARGETS:
        return http_seeds(target)
    if target in TEXT_TARGETS:
        return TEXT_SEEDS
    vectors = msgspec.json.decode(VECTORS.read_bytes())
    ours = [bytes.fromhex(vector["hex"]) for vector in vectors["from_client"]]
    theirs = [bytes.fromhex(vector["hex"]) for vector in vectors["from_server"]]
    framed = [b"\1" + struct.pack("<H", len(frame)) + frame for frame in ours if len(frame) < 512]
    messages = [vector["message"] for vector in vectors["from_client"]]
    return {
        "server_wire": ours,
        "request": [msgspec.msgpack.encode(message["request"]) for message in messages if "request" in message],
        "client_wire": theirs,
        "session": [b"".join(framed) + b"\4", *framed],
        "vendors": [
            bytes([number]) + "\n\n".join(json.dumps(message) for message in CONVERSATIONS[name][1]).encode()
            for number, name in enumerate(sorted(CONVERSATIONS))
        ],
        "clip": [_wav(), b"fLaC", b"OggS", b"ID3\3", b"RIFF\xff\xff\xff\xffWAVE"],
    }[target]


def _wav() -> bytes:
    sound = bytes(2 * 24_000)
    form = struct.pack("<IHHIIHH", 16, 1, 1, 24_000, 48_000, 2, 16)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(sound))
        + b"WAVEfmt "
        + form
        + b"data"
        + struct.pack("<I", len(sound))
        + sound
    )
