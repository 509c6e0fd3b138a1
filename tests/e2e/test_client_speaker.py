"""The Python client aloud: what is said reaches the device whole, and an interruption is silence at once.

The device is the test's own clock: it takes sound when it is told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from kingfisher_client import AsyncClient, Cancelled, Finish, MisuseError, Player, ServerError, Speaker
from kingfisher_client.player import Fill

from tests.fake_live_server import CHUNK, CHUNK_MS, Peer, live_server, one_reply, replies

RATE_HZ = 24_000


class Loudspeaker:
    latency_s = 0.0

    def start(self, fill: Fill) -> None:
        self._fill = fill

    def close(self) -> None:
        """Nothing to let go of."""

    def play(self, ms: float) -> bytes:
        return self._fill(round(ms * RATE_HZ / 1000) * 2)


@pytest.fixture
def device() -> Loudspeaker:
    return Loudspeaker()


async def test_what_is_said_is_played_whole_and_silence_follows(device: Loudspeaker) -> None:
    async with live_server(one_reply) as server, AsyncClient(server.url) as client:
        speaker = Speaker(client, Player(RATE_HZ, device=device))
        assert isinstance(await speaker.say(["Hello ", "there."]), Finish)
        assert device.play(3 * CHUNK_MS) == CHUNK * 2 + bytes(len(CHUNK))
    assert server.texts == ["Hello there."]
    assert server.peers[0].received[0]["request"] == {"format": "pcm", "sample_rate": RATE_HZ}


async def interruptible(peer: Peer) -> None:
    await peer.until("text")
    for _ in range(3):
        await peer.audio(CHUNK, utterance=1)
    await peer.until("cancel")
    await peer.audio(CHUNK, utterance=1)  # crossed with it
    await peer.send("cancelled", utterance=1, spoken_text="One", remaining_text="two.", audio_ms=4 * CHUNK_MS)
    await peer.until("stop")
    await peer.send("finish", reason="stop")
    await peer.until("stop")
    await peer.audio(b"\7\0" * 960, utterance=2)
    await peer.send("finish", reason="stop")


async def endless() -> AsyncIterator[str]:
    yield "One two. "
    await asyncio.Event().wait()


async def test_an_interruption_is_silence_and_the_next_words_follow_it_on_the_same_socket(device: Loudspeaker) -> None:
    async with live_server(interruptible) as server, AsyncClient(server.url) as client:
        player = Player(RATE_HZ, device=device)
        speaker = Speaker(client, player)
        saying = asyncio.create_task(speaker.say(endless()))
        while not player.heard_ms():
            device.play(CHUNK_MS / 2)
            await asyncio.sleep(0)
        assert await speaker.interrupt() == CHUNK_MS / 2
        assert device.play(CHUNK_MS) == bytes(len(CHUNK))
        outcome = await saying
        assert isinstance(outcome, Cancelled)
        assert (outcome.spoken_text, outcome.remaining_text) == ("One", "two.")
        assert device.play(CHUNK_MS) == bytes(len(CHUNK)), "nothing of what crossed with it"
        assert isinstance(await speaker.say("Three."), Finish)
        assert device.play(CHUNK_MS) == b"\7\0" * 960
        assert client.connects == 1
    cancel = next(message for message in server.peers[0].received if message["event"] == "cancel")
    assert cancel["played_ms"] == CHUNK_MS / 2


async def test_an_interruption_before_the_stream_is_open_leaves_nothing_behind(device: Loudspeaker) -> None:
    async with live_server(replies) as server:
        client = AsyncClient(server.url)  # connects when there is something to say
        speaker = Speaker(client, Player(RATE_HZ, device=device))
        saying = asyncio.create_task(speaker.say("Never heard."))
        await asyncio.sleep(0)
        assert await speaker.interrupt() == 0.0
        assert await saying is None
        assert not speaker.is_speaking
        assert isinstance(await speaker.say("Heard."), Finish)
        await client.close()
    assert "".join(server.texts) == "Heard."


async def test_saying_two_things_at_once_is_a_misuse(device: Loudspeaker) -> None:
    async with live_server(replies) as server, AsyncClient(server.url) as client:
        speaker = Speaker(client, Player(RATE_HZ, device=device))
        saying = asyncio.create_task(speaker.say("One."))
        await asyncio.sleep(0)
        with pytest.raises(MisuseError, match="interrupt it first"):
            await speaker.say("Two.")
        assert isinstance(await saying, Finish)


async def test_what_ends_the_stream_is_raised_and_the_speaker_goes_on(device: Loudspeaker) -> None:
    async def behave(peer: Peer) -> None:
        await peer.until("stop")
        await peer.send("finish", reason="error", code="overloaded", message="too much")
        await one_reply(peer)

    async with live_server(behave) as server, AsyncClient(server.url) as client:
        speaker = Speaker(client, Player(RATE_HZ, device=device))
        with pytest.raises(ServerError) as failure:
            await speaker.say("Lost.")
        assert failure.value.code == "overloaded"
        assert isinstance(await speaker.say("Heard."), Finish)


# ---- the player ------------------------------------------------------------------------------------------------


async def test_a_full_player_makes_its_source_wait_until_the_device_has_taken_some(device: Loudspeaker) -> None:
    player = Player(RATE_HZ, device=device, max_queued_s=0.04)
    await player.push(CHUNK)
    waiting = asyncio.create_task(player.push(CHUNK))
    await asyncio.sleep(0)
    assert not waiting.done()
    device.play(CHUNK_MS)
    await waiting
    drained = asyncio.create_task(player.drained())
    await asyncio.sleep(0)
    assert not drained.done()
    assert device.play(CHUNK_MS) == CHUNK
    await drained


async def test_what_was_heard_counts_from_the_turns_own_first_sound(device: Loudspeaker) -> None:
    player = Player(RATE_HZ, device=device)
    await player.push(CHUNK)
    device.play(10)
    player.begin()  # 30 ms of the turn before are still to be heard
    await player.push(CHUNK)
    device.play(25)
    assert player.heard_ms() == 0.0
    device.play(15)
    assert player.heard_ms() == 10.0
    device.latency_s = 0.004
    assert player.interrupt() == 6.0
    assert device.play(CHUNK_MS) == bytes(len(CHUNK))


async def test_what_waited_for_room_is_dropped_by_an_interruption(device: Loudspeaker) -> None:
    player = Player(RATE_HZ, device=device, max_queued_s=0.04)
    await player.push(CHUNK)
    waiting = asyncio.create_task(player.push(CHUNK))
    await asyncio.sleep(0)
    player.interrupt()
    await waiting
    assert device.play(CHUNK_MS) == bytes(len(CHUNK))
