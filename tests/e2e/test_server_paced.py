"""A client that lets little be sent ahead: its sound comes in rhythm, and is the same sound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from tests.e2e.live import Server, pcm, running

PACED_S, UNPACED_S = 0.3, 30.0
TEXT = "Sound for this sentence, please. And some for another one."


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(engine={"slots": 4}) as server:
        yield server


async def test_paced_sound_is_every_sample_of_the_unpaced(server: Server) -> None:
    async with server.caller() as caller:
        whole = pcm(await caller.turn(TEXT, format="pcm", max_lead_s=UNPACED_S))
        paced = await caller.turn(TEXT, format="pcm", max_lead_s=PACED_S)
    assert np.array_equal(pcm(paced), whole)
    audio = [message for message in paced if message["event"] == "audio"]
    # Half of the lead at most is sent ahead: not before its time, as the server's own clock has it.
    for message in audio:
        assert message["pts_ms"] - (message["time"] - audio[0]["time"]) <= PACED_S * 500 + 60


async def test_a_flush_is_answered_when_its_sound_was_sent(server: Server) -> None:
    async with server.caller() as caller:
        await caller.start("The sound before the flush.", format="pcm", max_lead_s=PACED_S)
        await caller.say("flush")
        flushed = await caller.hear("flushed")
        sent_ms = sum(m["duration_ms"] for m in caller.heard if m["event"] == "audio")
        assert sent_ms == pytest.approx(flushed["audio_ms"], abs=0.1)
        await caller.say("stop")
        await caller.hear("finish")


@pytest.mark.parametrize("after_s", [0.0, 0.4, 1.2, 1.35, 1.5])
async def test_a_cancel_at_any_time_leaves_the_next_turn_whole(server: Server, after_s: float) -> None:
    async with server.caller() as caller:
        expected = pcm(await caller.turn("The next one is whole.", format="pcm", max_lead_s=UNPACED_S))
        await caller.start("This one is cut off.", format="pcm", max_lead_s=PACED_S)
        await caller.say("stop")
        await caller.hear("audio")
        await asyncio.sleep(after_s)
        await caller.say("cancel")
        await caller.hear("cancelled", "finish")
        messages = await caller.turn("The next one is whole.", format="pcm", max_lead_s=PACED_S)
    assert messages[-1]["reason"] == "stop"
    assert np.array_equal(pcm(messages), expected)


async def test_who_leaves_while_sound_is_held_harms_nobody(server: Server) -> None:
    async with server.caller() as other:
        await other.start(TEXT, format="pcm", max_lead_s=PACED_S)
        await other.say("stop")
        for _ in range(5):
            async with server.caller() as caller:
                await caller.start(TEXT * 4, format="pcm", max_lead_s=PACED_S)
                await caller.hear("audio")
        finish = await other.hear("finish")
    assert finish["reason"] == "stop"
    await server.metric_becomes("kingfisher_slots_used", 0)
