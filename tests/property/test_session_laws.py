"""What holds for every session, whatever the client sends, in whatever order the engine's answers come.

Both sides are driven at random (tests/session_talk.py): messages good and bad, work made and delivered late, clocks,
failures, shut-downs. The laws are checked on what came out.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from realtime.audio.chunk import AudioChunk
from realtime.errors import EngineFault, Internal
from realtime.protocol import events
from realtime.protocol.dialect import Shut
from tests.session_talk import Talk

WORDS = st.sampled_from(
    ["alpha ", "beta, ", "gamma. ", "delta? ", "Dr. ", "$4", ".75 ", "e", "psilon ", "[soft] ", "\n"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map("".join)

Action = tuple[str, Any]


def message(event: str, **fields: Any) -> Action:
    return "frame", msgspec.msgpack.encode({"event": event, **fields})


CLIENT = st.one_of(
    st.builds(lambda text: message("start", request={"text": text}), TEXTS | st.just("")),
    st.builds(lambda text: message("text", text=text), TEXTS),
    st.builds(lambda ms: message("cancel", played_ms=ms), st.none() | st.floats(allow_nan=True)),
    st.sampled_from([message("flush"), message("stop"), message("ping", id=1), message("start", request={"seed": -1})]),
)
ENGINE = st.sampled_from([("make", None), ("deliver", 1), ("deliver", 3), ("run", None), ("warmed", None)])
ENDS = st.sampled_from([("fail", None), ("drain", None), ("give up", None), ("wait", 1.0), ("wait", 700.0)])
NOISE = st.one_of(
    st.binary(max_size=40).map(lambda data: ("frame", data)),
    st.text(max_size=10).map(lambda text: ("frame", text)),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: ("frame", msgspec.msgpack.encode(value))),
    st.builds(
        lambda event, key, value: message(event, **{key: value}),
        st.sampled_from(["start", "text", "flush", "stop", "cancel", "ping", "words"]),
        st.sampled_from(["request", "text", "played_ms", "id", "debug"]),
        st.none() | st.integers() .filter(lambda n: abs(n) < 1 << 62) | st.text(max_size=5) | st.just({}) | st.just([]),
    ),
)  # fmt: skip

POLITE = st.lists(st.one_of(CLIENT, CLIENT, ENGINE), max_size=60)
ANYTHING = st.lists(st.one_of(CLIENT, CLIENT, ENGINE, NOISE, ENDS), max_size=40)


def play(talk: Talk, action: Action) -> None:
    kind, value = action
    match kind:
        case "frame":
            talk.send_raw(value)
        case "make":
            talk.make()
        case "deliver":
            talk.deliver(value)
        case "run":
            talk.run()
        case "wait":
            talk.wait(value)
        case "warmed":
            talk.context.warmed("anna")
        case "fail":
            talk.context.failed(None, EngineFault("overloaded", "no slot"), talk.now)
        case "drain":
            talk.dialect.drain(talk.now)
        case "give up":
            talk.dialect.give_up(Internal("broken"), 1011, talk.now)
    talk.pump()


def finish_off(talk: Talk) -> None:
    """Let the engine do all its work, then end the session from outside."""
    talk.run()
    play(talk, ("give up", None))


@given(ANYTHING)
def test_whatever_comes_in_nothing_is_raised_and_after_the_end_nothing_comes_out(actions: list[Action]) -> None:
    talk = Talk()
    for action in actions:
        was_shut, said, done = bool(talk.of(Shut)), len(talk.replies), len(talk.events)
        play(talk, action)
        if was_shut:
            assert (len(talk.replies), len(talk.events)) == (said, done)
    finish_off(talk)
    assert len(talk.of(Shut)) == 1
    assert isinstance(talk.events[-1], Shut)


@given(ANYTHING)
def test_every_start_has_exactly_one_answer(actions: list[Action]) -> None:
    talk = Talk()
    starts = 0
    is_open = False
    seen = 0
    for action in [*actions, ("run", None), ("give up", None)]:
        is_start = action[0] == "frame" and _is_start(action[1])
        if is_start and not is_open and not talk.of(Shut):
            starts, is_open = starts + 1, True
        play(talk, action)
        for reply in talk.replies[seen:]:
            if reply["event"] == "finish":
                assert is_open, "a finish without a start"
                is_open = False
            elif reply["event"] == "error":
                is_open = False
        seen = len(talk.replies)
    assert not is_open
    assert len(talk.of(events.Finished)) == starts


def _is_start(frame: bytes | str) -> bool:
    try:
        data = msgspec.msgpack.decode(frame) if isinstance(frame, bytes) else None
    except msgspec.DecodeError:
        return False
    return isinstance(data, dict) and data.get("event") == "start" and _is_bool_or_none(data.get("debug"))


def _is_bool_or_none(value: object) -> bool:
    return value is None or isinstance(value, bool)


@given(ANYTHING)
def test_nothing_of_an_utterance_is_sent_after_it_was_cancelled(actions: list[Action]) -> None:
    talk = Talk()
    talk.last_chunk = AudioChunk(5.0, b"the end")
    for action in actions:
        play(talk, action)
    finish_off(talk)
    cancelled, begun = 0, max((begin.utterance for begin in talk.of(events.Begin)), default=0)
    for reply in talk.replies:
        if reply["event"] == "cancelled":
            cancelled = reply["utterance"]
        elif reply["event"] == "audio":
            assert cancelled < reply["utterance"] <= begun


@given(ANYTHING)
def test_positions_and_numbers_of_audio_have_no_gap(actions: list[Action]) -> None:
    talk = Talk()
    for action in actions:
        play(talk, action)
    finish_off(talk)
    places: dict[int, tuple[int, float]] = {}
    for audio in talk.named("audio"):
        seq, pts_ms = places.get(audio["utterance"], (0, 0.0))
        assert audio["seq"] == seq
        assert abs(audio["pts_ms"] - pts_ms) < 0.01 * (seq + 1)
        places[audio["utterance"]] = (seq + 1, audio["pts_ms"] + audio["duration_ms"])
    assert list(places) == sorted(places)


@given(st.lists(st.one_of(TEXTS.map(lambda text: ("text", text)), st.sampled_from([("flush", ""), ("work", "")]))))
def test_every_character_is_in_exactly_one_unit_in_order(actions: list[tuple[str, str]]) -> None:
    talk = Talk()
    talk.start(normalize=False)
    said = ""
    for kind, text in actions:
        if kind == "text":
            said += text
            talk.send("text", text=text)
        elif kind == "flush":
            talk.send("flush")
        else:
            talk.make()
            talk.deliver(2)
    talk.send("stop")
    talk.run()
    # A tail without anything to say, such as a closing "?", may be left out; it is never spoken twice.
    spoken = "".join("".join(talk.spoken).split())
    assert "".join(said.split()).startswith(spoken)
    assert sum(map(str.isalnum, spoken)) == sum(map(str.isalnum, said))
    assert [speak.unit for speak in talk.of(events.Speak)] == list(range(len(talk.spoken)))


@given(POLITE)
def test_flushes_are_answered_in_order_and_none_twice(
    actions: list[Action],
) -> None:
    talk = Talk()
    for action in actions:
        play(talk, action)
    finish_off(talk)
    last = 0
    for reply in talk.replies:
        if reply["event"] == "flushed":
            assert reply["seq"] > last
            last = reply["seq"]
        elif reply["event"] in ("finish", "error"):
            last = 0


@given(st.lists(st.one_of(TEXTS.map(lambda text: ("text", text)), st.just(("flush", "")), st.just(("work", "")))))
def test_without_a_cancel_the_flushes_answered_are_the_flushes_sent(actions: list[tuple[str, str]]) -> None:
    talk = Talk()
    talk.start()
    for kind, text in actions:
        if kind == "work":
            talk.make()
            talk.deliver(2)
        else:
            talk.send(kind, **({"text": text} if text else {}))
    talk.send("stop")
    talk.run()
    flushes = sum(kind == "flush" for kind, _ in actions)
    assert [reply["seq"] for reply in talk.named("flushed")] == list(range(1, flushes + 1))
    assert talk.replies[-1]["event"] == "finish"
