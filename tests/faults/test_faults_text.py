"""Faults of text input (groups A and C of tests/FAULTS.md) as callers meet them: over a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from realtime.protocol import events
from tests.e2e.live import Server, pcm, running, sound
from tests.session_talk import Talk

WORDS = ("alder", "birch", "cedar", "damson", "elder", "fir", "gorse", "hazel", "ivy", "juniper")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(engine={"slots": 2}) as server:
        yield server


def units_of(*texts: str) -> list[str]:
    """What is handed to the engine when these come as separate events, word for word as written."""
    talk = Talk()
    talk.start(normalize=False)
    for text in texts:
        talk.send("text", text=text)
    talk.send("stop")
    talk.run()
    assert talk.replies[-1]["event"] == "finish"
    assert talk.replies[-1]["reason"] == "stop"
    return [event.text for event in talk.of(events.Speak)]


async def test_fault_1_units_with_nothing_to_say_leave_the_turn_whole(server: Server) -> None:
    async with server.caller() as caller:
        alone = pcm(await caller.turn("We open at nine.", format="pcm"))
        begin = len(caller.heard)
        await caller.start(format="pcm")
        for text in ("…", " — ", "🙂"):
            await caller.say("text", text=text)
            await caller.say("flush")
        await caller.say("text", text="We open at nine.")
        await caller.say("stop")
        finish = await caller.hear("finish")
    heard = caller.heard[begin:]
    assert finish["reason"] == "stop"
    assert len(alone) > 0
    assert {m["event"] for m in heard} <= {"audio", "flushed", "finish"}
    assert len(pcm(heard)) == len(alone)


@pytest.mark.parametrize("audio_format", ["pcm", "wav", "opus", "opus_packets"])
@pytest.mark.parametrize(
    "said",
    [[], [("text", ""), ("text", " \n\t"), ("flush", None)], [("flush", None), ("flush", None)]],
    ids=["nothing", "blanks", "flushes"],
)
async def test_fault_3_a_stream_of_nothing_ends_well(
    server: Server, audio_format: str, said: list[tuple[str, str | None]]
) -> None:
    async with server.caller() as caller:
        await caller.start(format=audio_format)
        for event, text in said:
            await caller.say(event, **({} if text is None else {"text": text}))
        await caller.say("stop")
        assert (await caller.hear("finish"))["reason"] == "stop"
        flushes = [m["seq"] for m in caller.heard if m["event"] == "flushed"]
        assert flushes == list(range(1, 1 + sum(event == "flush" for event, _ in said)))
        assert not any(m["event"] == "audio" for m in caller.heard)
    await server.metric_becomes("kingfisher_slots_used", 0)


DOTTED = ("The invoice is $4", ".75, due at 3 p", ".m. Ask Dr", ". Rivera about v2", ".10.1.")


@pytest.mark.parametrize("pieces", [DOTTED, tuple("".join(DOTTED))], ids=["as reported", "one by one"])
def test_fault_4_a_dot_ends_a_sentence_only_when_what_follows_was_seen(pieces: tuple[str, ...]) -> None:
    units = units_of(*pieces)
    for whole in ("$4.75", "3 p.m.", "Dr. Rivera", "v2.10.1"):
        assert any(whole in unit for unit in units), f"{whole} was cut: {units}"


def test_fault_8_a_tag_cut_across_events_is_one_tag() -> None:
    pieces = ("First part. <break ", 'time="1s"/> second ', "[soft", " voice] third.")
    assert units_of(*pieces) == units_of("".join(pieces))
    for unit in units_of(*pieces):
        assert unit.count("<") == unit.count(">")
        assert unit.count("[") == unit.count("]")


@pytest.mark.parametrize("events_count", [1, 300])
def test_fault_12_every_word_of_a_long_text_reaches_the_engine(events_count: int) -> None:
    words = [f"{WORDS[i // 50 % 10]}{i // 50}" if i % 50 == 0 else "word" for i in range(1_500)]
    text = ". ".join(" ".join(words[i : i + 12]) for i in range(0, 1_500, 12)) + "."
    size = -(-len(text) // events_count)
    units = units_of(*(text[i : i + size] for i in range(0, len(text), size)))
    assert " ".join(units) == text
    markers = [word.strip(".") for word in " ".join(units).split() if any(map(str.isdigit, word))]
    assert markers == [word for word in words if word != "word"]


async def test_fault_24_the_last_words_are_said_in_their_own_turn(server: Server) -> None:
    code = "Your code is seven nine tango"
    async with server.caller() as caller:
        first = pcm(await caller.turn(code, format="pcm"))
        goodbye = pcm(await caller.turn("Goodbye.", format="pcm"))
        await caller.start(format="pcm")
        begin = len(caller.heard)
        for text in (code, "Goodbye."):
            await caller.say("text", text=text)
            await caller.say("flush")
            await caller.hear("flushed")
        middle = next(i for i, m in enumerate(caller.heard) if i >= begin and m["event"] == "flushed")
        await caller.say("stop")
        await caller.hear("finish")
    assert len(first) > len(goodbye) > 0
    assert len(pcm(caller.heard[begin:middle])) == len(first)
    assert len(pcm(caller.heard[middle:])) == len(goodbye)


@pytest.mark.parametrize("asked", ["wav", "pcm", "opus", "OPUS", "opus_packets"])
async def test_fault_65_the_format_asked_for_comes_in_more_than_one_event(server: Server, asked: str) -> None:
    async with server.caller() as caller:
        messages = await caller.turn("This text takes ten seconds to be spoken aloud. " * 4, format=asked)
    audio = [m for m in messages if m["event"] == "audio"]
    assert len(audio) > 1
    if asked == "opus_packets":
        assert all(m["packets"] for m in audio)
    else:
        magic = {"wav": b"RIFF", "opus": b"OggS"}.get(asked.lower())
        body = sound(messages)
        assert body[:4] == magic if magic else body[:4] not in (b"RIFF", b"OggS")


@pytest.mark.parametrize("asked", ["flak", "", "exe"])
async def test_fault_65_a_format_that_does_not_exist_is_an_error_that_lists_those_that_do(
    server: Server, asked: str
) -> None:
    async with server.caller() as caller:
        messages = await caller.turn("Hello.", format=asked)
    assert [m["event"] for m in messages if m["event"] != "ready"] == ["finish"]
    assert messages[-1]["code"] == "bad_request"
    assert "pcm" in messages[-1]["message"]
    assert "wav" in messages[-1]["message"]
