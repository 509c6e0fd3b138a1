"""Speech as the answer to a request: real errors before the first sound, a cut body after it, never a short success."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from tests.e2e.live import Server, running
from tests.e2e.vendors import http

LONG = "This sentence belongs to a story that takes a while. " * 40
PATH = "/v1/text-to-speech/low/stream?output_format=pcm_24000"


async def begun(client: httpx.AsyncClient) -> httpx.Response:
    """An answer whose first sound has come."""
    answer = await client.send(client.build_request("POST", PATH, json={"text": LONG}), stream=True)
    assert answer.status_code == 200
    return answer


async def test_what_fails_half_way_cuts_the_body() -> None:
    with running(config={"drain_s": 0.3}, engine={"step_s": 0.02}) as server:
        async with http(server) as client:
            answer = await begun(client)
            server.process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in answer.aiter_bytes():
                    pass
        assert await asyncio.to_thread(server.wait_for_exit) == 0


async def test_a_failure_half_way_is_an_event_where_there_are_events() -> None:
    body = {"transcript": LONG, "voice": {"mode": "id", "id": "low"}, "model_id": "sonic-3"}
    with running(config={"drain_s": 0.3}, engine={"step_s": 0.02}) as server:
        async with http(server) as client, client.stream("POST", "/tts/sse", json=body) as answer:
            lines = [await anext(chunks := answer.aiter_lines())]
            server.process.send_signal(signal.SIGTERM)
            lines += [line async for line in chunks]
    events = [line for line in lines if line.startswith("event: ")]
    assert set(events[:-1]) == {"event: chunk"}
    assert events[-1] == "event: error"


async def test_a_client_that_leaves_ends_the_speech_and_frees_its_seat() -> None:
    with running(engine={"step_s": 0.02}) as server:
        async with http(server) as client:
            answer = await begun(client)  # long before the last sound is made
            assert await server.metric("kingfisher_sessions") == 1
            await answer.aclose()
            await server.metric_becomes("kingfisher_sessions", 0)


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        (PATH, {"text": "Hi."}, ("detail", "status")),
        ("/tts/bytes", {"transcript": "Hi."}, ("error_code",)),
        ("/v1/speak", {"text": "Hi."}, ("err_code",)),
        ("/hooks/trtc", {"Text": "Hi."}, ("error", "code")),
    ],
)
async def test_no_room_is_an_error_of_its_protocol_with_a_time_to_come_again(
    busy: Server, path: str, body: dict[str, str], place: tuple[str, ...]
) -> None:
    async with http(busy) as client:
        await begun(client)
        answer = await client.post(path, json=body)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    code = answer.json()
    for name in place:
        code = code[name]
    assert code in ("system_busy", "overloaded", "NET-0002")


@pytest.fixture
def busy():  # type: ignore[no-untyped-def]
    """One slot, which whoever speaks keeps."""
    with running(config={"queue_s": 0.2}, engine={"slots": 1, "step_s": 0.02}) as server:
        yield server


@pytest.mark.parametrize("path", [PATH, "/tts/bytes", "/v1/speak", "/hooks/vapi"])
async def test_a_body_over_the_limit_is_refused(path: str) -> None:
    with running(config={"max_message_bytes": 1_000}) as server:
        async with http(server) as client:
            answer = await client.post(path, json={"text": "x" * 2_000})
    assert answer.status_code == 413
