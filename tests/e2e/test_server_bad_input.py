"""Bad input of every kind against a real server: a clear answer in time, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from tests.e2e.live import Caller, Server, pcm, running
from tests.unit.realtime.protocol.test_protocol_wire import MALFORMED

LIMIT = 2 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config={"max_message_bytes": LIMIT, "max_stream_chars": 5_000}, engine={"slots": 4}) as server:
        yield server


async def undisturbed(server: Server, bad: Any) -> None:
    """`bad` runs while a parallel session speaks; that one loses nothing, and one after it works."""
    text = "This session goes on as if nothing had happened."

    async def neighbour() -> int:
        async with server.caller() as caller:
            return len(pcm(await caller.turn(text, format="pcm", max_lead_s=0.5)))

    alone = asyncio.create_task(neighbour())
    await asyncio.sleep(0)
    await bad
    assert await alone == await neighbour()


def pack(event: str, **fields: Any) -> bytes:
    return msgspec.msgpack.encode({"event": event, **fields})


async def refused(server: Server, *frames: bytes | str) -> tuple[str, int]:
    """The error code and the close code that these frames earn."""
    async with server.caller() as caller:
        for frame in frames:
            await caller.socket.send(frame)
        close_code, reason = await caller.closed()
        error = caller.heard[-1]
        assert error["event"] == "error"
        assert reason
        return error["code"], close_code


async def cut_off(caller: Caller, message: Any) -> None:
    """The server ends the socket while the client is still sending. Whether its close frame survives that is up to
    TCP, which drops what was received once more data meets a closed socket."""

    async def send_and_listen() -> None:
        await caller.socket.send(message)
        await caller.hear("no such event")

    with pytest.raises(ConnectionClosed) as end:
        await send_and_listen()
    assert end.value.rcvd is None or end.value.rcvd.code == 1009


async def test_malformed_frames(server: Server) -> None:
    async def all_kinds() -> None:
        for name, frame in MALFORMED.items():
            assert await refused(server, frame) == ("malformed", 1007), name

    before_bytes = server.rss_bytes()
    await undisturbed(server, all_kinds())
    assert server.rss_bytes() - before_bytes < 20 << 20


async def test_a_text_frame(server: Server) -> None:
    assert await refused(server, '{"event": "start"}') == ("text_frame", 1003)


@pytest.mark.parametrize(
    "frames",
    [
        [pack("text", text="Hello.")],
        [pack("stop")],
        [pack("start"), pack("start")],
        [pack("start", request={"text": "A sentence. " * 50}), pack("stop"), pack("text", text="late")],
    ],
    ids=["text first", "stop first", "two starts", "text after stop"],
)
async def test_messages_out_of_order(server: Server, frames: list[bytes]) -> None:
    assert await refused(server, *frames) == ("bad_order", 1008)


async def test_unknown_events_and_fields_are_ignored(server: Server) -> None:
    async with server.caller() as caller:
        await caller.say("hello", text=5)
        await caller.say("start", request={"format": "pcm", "mystery": {"a": [1]}}, context_id="c1")
        await caller.say("text", text="Hello.", position=[1, 2])
        await caller.say("words")
        await caller.say("stop", why=None)
        assert (await caller.hear("finish"))["reason"] == "stop"


@pytest.mark.parametrize(
    ("request_", "code", "hint"),
    [
        ({"format": "pcm", "sample_rate": -8000}, "bad_request", "sample_rate is -8000"),
        ({"format": "mp4"}, "bad_request", "opus, opus_packets, pcm, wav"),
        ({"voice": "../../etc/passwd"}, "unknown_voice", "known voices: high, low"),
        ({"voice": "a\0b"}, "unknown_voice", "known voices"),
        ({"voice": "x" * 4_000}, "unknown_voice", "known voices"),
        ({"text": "x " * 5_000}, "too_much_text", "5000 characters"),
        ({"temperature": "hot"}, "bad_request", "temperature"),
    ],
)
async def test_a_bad_start_is_answered_and_the_socket_goes_on(
    server: Server, request_: dict[str, Any], code: str, hint: str
) -> None:
    async with server.caller() as caller:
        await caller.say("start", request=request_)
        await caller.say("text", text="sent before the answer came")
        await caller.say("stop")
        finish = await caller.hear("finish")
        assert (finish["reason"], finish["code"]) == ("error", code)
        assert hint in finish["message"]
        assert (await caller.turn("And now it works.", format="pcm"))[-1]["reason"] == "stop"


async def test_an_unknown_reference_id_is_spoken_by_the_default_voice(server: Server) -> None:
    async with server.caller() as caller:
        messages = await caller.turn("Hello.", format="pcm", reference_id="933563129e564b19a115bedd57b7406a")
    assert [m["event"] for m in messages if m["event"] not in ("audio", "ready")] == ["warning", "finish"]


async def test_messages_up_to_the_limit_work_and_those_over_it_are_named(server: Server) -> None:
    start = {"event": "start", "request": {"references": [{"audio": b"", "text": "clip"}], "format": "pcm"}}
    overhead = len(msgspec.msgpack.encode(start)) + 3
    start["request"]["references"][0]["audio"] = bytes(LIMIT - overhead)  # type: ignore[index]
    frame = msgspec.msgpack.encode(start)
    assert len(frame) == LIMIT
    async with server.caller() as caller:
        await caller.socket.send(frame)
        await caller.say("text", text="Spoken with this clip.")
        await caller.say("stop")
        assert (await caller.hear("finish"))["reason"] == "stop"
    assert await refused(server, frame + b"\0") == ("too_big", 1009)


async def test_a_message_of_ten_megabytes(server: Server) -> None:
    async def huge() -> None:
        async with server.caller() as caller:
            await cut_off(caller, pack("text", text="x" * (10 << 20)))

    await undisturbed(server, huge())


async def test_a_message_in_many_fragments_is_one_message(server: Server) -> None:
    frame = pack("start", request={"text": "Sent in small pieces.", "format": "pcm"})
    async with server.caller() as caller:
        await caller.socket.send(frame[i : i + 5] for i in range(0, len(frame), 5))
        await caller.say("stop")
        assert (await caller.hear("finish"))["reason"] == "stop"


async def test_endless_fragments_hit_the_same_limit(server: Server) -> None:
    async with server.caller() as caller:
        await cut_off(caller, (bytes(1 << 16) for _ in range(100)))


async def test_the_log_of_all_this_holds_no_traceback(server: Server) -> None:
    assert "Traceback" not in "".join(server.log)
    assert await server.metric("kingfisher_sessions") == 0
