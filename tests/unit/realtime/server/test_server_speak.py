"""Speech for a request that is no socket: all of it or an error, and the slot is free afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from engine.null import NullEngine
from realtime.config import ServerConfig
from realtime.errors import Internal, StreamFault, TooManySessions, TooMuchText, UnknownVoice
from realtime.protocol.events import OutputSpec, Reference
from realtime.protocol.replies import Audio, Finish, Reply
from realtime.protocol.request import HTTP_LEAD_S, StreamRequest
from realtime.server import spoken as spoken_module
from realtime.server.hub import Hub
from realtime.server.speak import ENOUGH_UNREAD_BYTES, speak
from realtime.server.spoken import bounded

PCM = OutputSpec("pcm", 24_000)
WIDEST = OutputSpec("f32", 48_000)
WIDEST_BYTES_A_SECOND = 48_000 * np.dtype(np.float32).itemsize
DEADLINE_S = 15.0


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(ServerConfig(model="null", max_sessions=2, voices_dir=str(tmp_path)), on_failure=lambda: None)
    await hub.open(NullEngine(slots=2))
    yield hub
    assert await hub.emptied(5.0)
    hub.close()


async def spoken(hub: Hub, request: StreamRequest) -> list[Reply]:
    async with speak(hub.guest(None), request) as replies:
        return [reply async for reply in replies]


def sound_made_s(hub: Hub) -> float:
    return hub.metrics.audio_s.collect()[0].samples[0].value


def is_held(hub: Hub) -> bool:
    """Nobody speaks, and not for being between two units."""
    return not hub.runtime.sessions_speaking and sound_made_s(hub) * WIDEST_BYTES_A_SECOND > ENOUGH_UNREAD_BYTES


async def test_all_speech_comes_and_then_the_finish(hub: Hub) -> None:
    replies = await spoken(hub, StreamRequest("One sentence. And another.", output=PCM))
    *audio, finish = replies
    assert isinstance(finish, Finish)
    heard_ms = sum(reply.chunk.duration_ms for reply in audio if isinstance(reply, Audio))
    assert heard_ms == pytest.approx(finish.audio_ms)
    assert heard_ms > 0
    assert [reply.text for reply in audio if isinstance(reply, Audio) and reply.text] == [
        "One sentence.",
        "And another.",
    ]


async def test_speech_far_beyond_its_lead_comes_whole(hub: Hub) -> None:
    """However the pace is set, an answer is never cut for its length."""
    totals = [
        (await spoken(hub, StreamRequest("One sentence, rather long. " * 3, output=PCM, max_lead_s=lead_s)))[-1]
        for lead_s in (0.1, 1_000.0)
    ]
    assert all(isinstance(finish, Finish) and finish.audio_ms > 1_000 for finish in totals)
    assert len({round(finish.audio_ms) for finish in totals if isinstance(finish, Finish)}) == 1


async def test_who_takes_nothing_holds_the_speech_and_not_the_slot(hub: Hub) -> None:
    """What waits for him is bounded by bytes, whatever the length of the text; then he gets all of it."""
    request = StreamRequest("One more sentence of a long text. " * 60, output=WIDEST, max_lead_s=HTTP_LEAD_S)
    async with speak(hub.guest(None), request) as replies:
        heard = [await anext(replies)]
        async with asyncio.timeout(DEADLINE_S):
            while not is_held(hub):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert sound_made_s(hub) < 60, "of 131 seconds"
        heard += [reply async for reply in replies]
    finish = heard[-1]
    assert isinstance(finish, Finish)
    assert finish.audio_ms == pytest.approx(131_200)
    assert sum(reply.chunk.duration_ms for reply in heard if isinstance(reply, Audio)) == pytest.approx(finish.audio_ms)


async def test_text_without_a_word_gives_a_finish_and_no_speech(hub: Hub) -> None:
    finish = (await spoken(hub, StreamRequest(" ... ", output=PCM)))[-1]
    assert isinstance(finish, Finish)
    assert (finish.audio_ms, finish.ttfa_ms) == (0, None)


async def test_what_cannot_be_spoken_raises(hub: Hub) -> None:
    with pytest.raises(StreamFault) as failure:
        await spoken(hub, StreamRequest("Hello.", voice="nobody", output=PCM))
    assert failure.value.code == UnknownVoice.code


async def test_a_clip_speaks(hub: Hub) -> None:
    assert await spoken(hub, StreamRequest("Hello.", reference=Reference((b"a clip",), "words"), output=PCM))


async def test_seats_are_limited_and_come_back_when_the_block_is_left_early(hub: Hub) -> None:
    request = StreamRequest("A long text. " * 50, output=PCM)
    async with speak(hub.guest(None), request) as first, speak(hub.guest(None), request):
        await anext(first)
        with pytest.raises(TooManySessions):
            await spoken(hub, request)
    assert await spoken(hub, StreamRequest("Hello.", output=PCM))


async def test_the_end_of_the_server_ends_it_with_an_error(hub: Hub) -> None:
    async with speak(hub.guest(None), StreamRequest("A long text. " * 500, output=PCM, max_lead_s=1.0)) as replies:
        await anext(replies)
        hub._give_up_all(Internal("the engine failed"), 1011)
        with pytest.raises(StreamFault) as failure:
            await anext(reply async for reply in replies if isinstance(reply, Finish))
        assert failure.value.code == "internal"


async def test_what_is_kept_whole_has_a_bound(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spoken_module, "MAX_WHOLE_BYTES", 100_000)
    kept: list[bytes] = []

    async def keep() -> None:
        async with speak(hub.guest(None), StreamRequest("A long text. " * 500, output=PCM)) as replies:
            async for reply in bounded(replies):
                kept.append(reply.chunk.data if isinstance(reply, Audio) else b"")

    with pytest.raises(TooMuchText, match="over 100000 bytes"):
        await keep()
    assert 0 < len(b"".join(kept)) <= 100_000
