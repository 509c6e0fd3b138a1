"""Who may come in: keys, voices, limits. A refusal is an HTTP answer with a JSON body, before the socket opens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from tests.e2e.live import Server, all_of, free_port, running, started, until

KEY = "kf-secret-7f3a"


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with running(config={"api_keys": ["other", KEY]}) as server:
        yield server


async def refusal(server: Server, query: str = "", **options: Any) -> tuple[int, dict[str, Any], str | None]:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(server.url(query), **options):
            pass
    response = caught.value.response
    body = json.loads(response.body or b"")
    assert body["status"] == response.status_code
    assert body["message"]
    return response.status_code, body["code"], response.headers.get("Retry-After")


async def test_a_key_may_come_in_three_ways(locked: Server) -> None:
    for query, options in [
        ("", {"additional_headers": {"Authorization": f"Bearer {KEY}"}}),
        (f"api_key={KEY}", {}),
        ("", {"subprotocols": [Subprotocol("kingfisher"), Subprotocol(KEY)]}),
    ]:
        async with locked.caller(query, **options) as caller:
            await caller.hear("ready")
            assert caller.socket.subprotocol == ("kingfisher" if "subprotocols" in options else None)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("api_key=wrong", {}),
        (f"api_key={KEY}x", {}),
        ("", {"additional_headers": {"Authorization": f"Basic {KEY}"}}),
        ("", {"additional_headers": {"Authorization": "Bearer ü"}}),
        ("", {"subprotocols": [Subprotocol("kingfisher"), Subprotocol("wrong")]}),
        ("", {"subprotocols": [Subprotocol("kingfisher")]}),
        ("", {"subprotocols": [Subprotocol("other-protocol"), Subprotocol(KEY)]}),
    ],
)
async def test_without_a_good_key_the_handshake_is_refused(locked: Server, query: str, options: dict[str, Any]) -> None:
    assert await refusal(locked, query, **options) == (401, "bad_key", None)


async def test_the_list_of_voices_needs_the_key_and_health_does_not(locked: Server) -> None:
    assert locked.get("/v1/voices")[0] == 401
    assert locked.get("/v1/voices", {"Authorization": f"Bearer {KEY}"})[0] == 200
    assert locked.get(f"/v1/voices?api_key={KEY}")[0] == 200
    assert [locked.get(path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]


async def test_keys_are_in_no_log_line(locked: Server) -> None:
    async with locked.caller(f"api_key={KEY}") as caller:
        await caller.turn("Hello.", format="pcm")
    await refusal(locked, "api_key=wrong-but-private")
    assert locked.get("/metrics")[0] == 200
    text = "".join(locked.log)
    assert KEY not in text
    assert "wrong-but-private" not in text
    assert "Traceback" not in text
    assert "ERROR" not in text


async def test_an_unknown_voice_is_refused_and_looks_like_any_other() -> None:
    with running() as server:
        for name in ("carl", "..%2f..%2fetc%2fhostname", "%2fetc%2fhostname", "a%00b", "x" * 4_000):
            assert await refusal(server, f"voice={name}") == (404, "unknown_voice", None)
        assert await server.metric('kingfisher_refused_total{code="unknown_voice"}') == 5


async def test_what_is_not_there_is_said_in_json_to_requests_and_sockets(locked: Server) -> None:
    """Packages parse what says no; a socket refused with 403 would make an agent give up its service for good."""
    status, body, _ = locked.get("/v1/asr")
    assert (status, json.loads(body)["message"]) == (404, "there is nothing at /v1/asr")
    status, body, headers = locked.get("/v1/tts")
    assert (status, json.loads(body)["code"], headers["allow"]) == (405, "method_not_allowed", "POST")
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{locked.port}/v1/asr/realtime")
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body)["code"] == "not_found"


async def test_one_session_more_than_the_limit_is_refused_and_those_inside_go_on() -> None:
    with running(config={"max_sessions": 3}) as server:
        async with AsyncExitStack() as inside:
            callers = [await inside.enter_async_context(server.caller()) for _ in range(3)]
            answers = await all_of(*(refusal(server) for _ in range(20)))
            assert set(answers) == {(429, "too_many_sessions", "2")}
            for messages in await all_of(*(caller.turn("Still here.", format="pcm") for caller in callers)):
                assert messages[-1]["reason"] == "stop"
        await server.metric_becomes("kingfisher_sessions", 0)
        async with server.caller() as caller:
            assert (await caller.turn("Room again.", format="pcm"))[-1]["reason"] == "stop"


async def test_more_sessions_than_slots_share_them() -> None:
    """Slots follow speech, not sockets: idle sessions lend theirs."""
    with running(engine={"slots": 2}) as server:
        async with AsyncExitStack() as inside:
            callers = [await inside.enter_async_context(server.caller()) for _ in range(12)]
            for messages in await all_of(*(caller.turn("One of many.", format="pcm") for caller in callers)):
                assert messages[-1]["reason"] == "stop"


async def test_a_session_that_gets_no_slot_in_time_is_told() -> None:
    with running(config={"queue_s": 0.3}, engine={"slots": 1}) as server:
        async with server.caller() as busy, server.caller() as waiting:
            await busy.start("A long text that keeps the only slot busy. " * 40, format="pcm", max_lead_s=0.5)
            await busy.hear("audio")
            messages = await waiting.turn("I want to speak as well.", format="pcm")
            assert (messages[-1]["reason"], messages[-1]["code"]) == ("error", "overloaded")
            await busy.say("cancel")
            await busy.say("stop")
            await busy.hear("finish")
            assert (await waiting.turn("Now I can.", format="pcm"))[-1]["reason"] == "stop"


async def test_until_the_model_is_loaded_sockets_are_refused_and_pages_answer() -> None:
    with started(loads_until_told=True, config={"port": (port := free_port())}) as server:
        server.port = port
        await asyncio.to_thread(until, server.answers)
        assert server.get("/healthz")[0] == 200
        assert server.get("/readyz")[:2] == (503, '{"ready":false}')
        assert server.get("/v1/voices")[0] == 503
        assert await refusal(server) == (503, "not_ready", "5")
        server.tell()
        server.wait_until_ready()
        assert server.get("/readyz")[0] == 200
