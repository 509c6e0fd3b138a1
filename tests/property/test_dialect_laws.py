"""Laws of the vendors' dialects, whatever clients and the engine do in whatever order."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime.errors import Internal
from realtime.protocol import events
from realtime.protocol.dialect import Shut
from tests.dialect_talk import DialectTalk
from tests.golden.wire.vendors import CONVERSATIONS

KEYS = st.sampled_from(["a", "b", ""])
TEXTS = st.sampled_from(["", " ", "Hello there. ", "no end", "One. Two. Three. ", "¿Qué?\n", "🙂", "x" * 2_100])

ELEVENLABS = st.fixed_dictionaries(
    {"text": TEXTS | st.none(), "context_id": KEYS},
    optional={
        "flush": st.booleans(),
        "close_context": st.booleans(),
        "close_socket": st.sampled_from([False] * 9 + [True]),
        "voice_settings": st.sampled_from([None, {"speed": 0.8}, {"speed": 9.0}, {"stability": 1}]),
    },
)
CARTESIA = st.fixed_dictionaries(
    {"context_id": KEYS, "transcript": TEXTS},
    optional={
        "continue": st.booleans(),
        "flush": st.booleans(),
        "cancel": st.booleans(),
        "max_buffer_delay_ms": st.sampled_from([0, 1_000, 9_000]),
        "output_format": st.sampled_from([{"encoding": "pcm_alaw", "sample_rate": 8_000}, {"encoding": "tape"}]),
    },
)
DEEPGRAM = st.fixed_dictionaries(
    {"type": st.sampled_from(["Speak", "Speak", "Flush", "Clear", "Close"]), "text": TEXTS}
)
JAMBONZ = st.fixed_dictionaries(
    {"type": st.sampled_from(["stream", "stream", "flush", "keepalive", "stop"]), "text": TEXTS}
)
FLUX = st.fixed_dictionaries(
    {"type": st.sampled_from("Speak Speak Speak Flush Flush Interrupt Configure".split()), "text": TEXTS},
    optional={"playback_offset": st.sampled_from([None, {"value": -5}, {"value": 700}, {"value": 1e9}])},
)
MESSAGES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "elevenlabs_multi": ELEVENLABS,
    "elevenlabs_single": ELEVENLABS,
    "cartesia": CARTESIA,
    "deepgram": DEEPGRAM,
    "deepgram_flux": FLUX,
    "jambonz": JAMBONZ,
}
JUNK = st.text(max_size=20) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
).map(json.dumps)

Act = Callable[[DialectTalk], object]


def acts(name: str) -> st.SearchStrategy[list[Act]]:
    """Mostly messages and the engine's work; time passes now and then."""
    kinds: dict[str, st.SearchStrategy[Act]] = {
        "send": MESSAGES[name].map(lambda message: lambda talk: talk.send(message)),
        "engine": st.sampled_from([1, 2, 5]).map(lambda count: lambda talk: (talk.make(), talk.deliver(count))),
        "wait": st.sampled_from([0.5, 3.0, 25.0]).map(lambda seconds: lambda talk: talk.wait(seconds)),
    }
    which = st.sampled_from(["send"] * 10 + ["engine"] * 6 + ["wait"])
    return st.lists(which.flatmap(kinds.__getitem__), min_size=8, max_size=25)


def chunks(talk: DialectTalk) -> list[tuple[str, bytes]]:
    """(context, sound) in the order heard."""
    heard: list[tuple[str, bytes]] = []
    for item in talk.heard:
        if isinstance(item, bytes):
            heard.append(("", item))
        elif isinstance(item, dict) and (data := item.get("audio") or item.get("data")) and isinstance(data, str):
            heard.append((item.get("contextId", item.get("context_id", "")), base64.b64decode(data)))
    return heard


def check(talk: DialectTalk) -> None:
    """What holds at any time."""
    shuts = [item for item in talk.heard if isinstance(item, Shut)]
    assert len(shuts) <= 1
    assert not shuts or talk.heard[-1] is shuts[0]
    # Each start ended at most once, and no stream was begun inside another of its context.
    open_streams: set[str] = set()
    for key, event in talk.asked:
        if isinstance(event, events.Begin) and event.new_stream:
            assert key not in open_streams
            open_streams.add(key)
        elif isinstance(event, events.Finished):
            open_streams.discard(key)
    # Only what was asked for is heard.
    asked = {
        (key, f"{event.unit}:{event.text}".encode()) for key, event in talk.asked if isinstance(event, events.Speak)
    }
    is_named = any(key for key, _ in asked)
    assert all(chunk in (asked if is_named else {("", data) for _, data in asked}) for chunk in chunks(talk))


@pytest.mark.parametrize("name", MESSAGES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_order_of_messages_and_results_keeps_the_laws(name: str, data: st.DataObject) -> None:
    talk = DialectTalk(CONVERSATIONS[name][0])
    for act in data.draw(acts(name)):
        act(talk)
        check(talk)
    if data.draw(st.booleans()):
        talk.dialect.drain(talk.now)
        talk.pump()
        check(talk)
    if name != "elevenlabs_single" and talk.shut is not None:
        assert talk.shut.code in (1000, 1011, 1012), "no order of good messages is a breach of the protocol"
    talk.dialect.give_up(Internal("a fault of the server"), 1011, talk.now)
    talk.pump()
    talk.run()
    check(talk)
    assert talk.shut is not None
    begun = [key for key, event in talk.asked if isinstance(event, events.Begin) and event.new_stream]
    ended = [key for key, event in talk.asked if isinstance(event, events.Finished)]
    # A start that was refused has no Begin, but an end.
    assert all(ended.count(key) >= begun.count(key) for key in begun)
    assert set(begun) <= set(talk.left)


@pytest.mark.parametrize("name", MESSAGES)
@settings(max_examples=60, deadline=None)
@given(frames=st.lists(JUNK | st.binary(max_size=20), max_size=6))
def test_no_frame_whatever_it_holds_raises(name: str, frames: list[str | bytes]) -> None:
    talk = DialectTalk(CONVERSATIONS[name][0])
    for frame in frames:
        talk.dialect.receive(frame, talk.now)
        talk.pump()
    talk.run()
    check(talk)


@pytest.mark.parametrize("name", ["elevenlabs_multi", "cartesia"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_context_never_hears_of_another(name: str, data: st.DataObject) -> None:
    """What context `a` says is the same whether or not others use the socket."""
    script = data.draw(st.lists(MESSAGES[name], max_size=12))
    script = [m | {"context_id": m.get("context_id") or "b"} for m in script if not m.get("close_socket")]
    alone, among = DialectTalk(CONVERSATIONS[name][0]), DialectTalk(CONVERSATIONS[name][0])
    for message in script:
        among.send(message)
        if message["context_id"] == "a":
            alone.send(message)
    assert among.spoken("a") == alone.spoken("a")
    alone.run()
    among.run()
    assert [sound for key, sound in chunks(among) if key == "a"] == [sound for _, sound in chunks(alone)]
