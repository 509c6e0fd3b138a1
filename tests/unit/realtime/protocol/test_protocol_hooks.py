"""The hooks of hosted platforms."""

from __future__ import annotations

import pytest

from realtime.errors import BadRequest
from realtime.protocol.hooks.jambonz import JambonzSocket, socket_request
from tests.dialect_talk import LIMITS, DialectTalk, new_context


def jambonz(**query: str) -> DialectTalk:
    request = socket_request({"voice": "anna"} | query)
    return DialectTalk(lambda now: JambonzSocket(new_context, request, LIMITS, now))


def test_jambonz_is_told_the_rate_it_asked_for_before_anything_else() -> None:
    assert jambonz(sampleRate="16000").heard == [
        {"type": "connect", "data": {"sample_rate": 16_000, "base64_encoding": False}}
    ]


def test_jambonz_hears_binary_samples_turn_after_turn() -> None:
    talk = jambonz()
    talk.send({"type": "stream", "text": "Hello there."}, {"type": "flush"})
    talk.run()
    talk.send({"type": "keepalive"}, {"type": "stream", "text": "Bye"}, {"type": "flush"})
    talk.run()
    assert talk.heard[1:] == [b"0:Hello there."] * 2 + [b"1:Bye"] * 2


def test_jambonz_stop_is_silence_and_the_end() -> None:
    talk = jambonz()
    talk.send({"type": "stream", "text": "Hello there."}, {"type": "flush"})
    talk.make()
    talk.send({"type": "stop"})
    talk.run()
    assert talk.heard[1:] == [talk.shut]
    assert talk.left == [""]


def test_jambonz_is_told_of_failures() -> None:
    talk = jambonz()
    talk.send({"type": "stream", "text": "x" * 3_000})
    talk.run()
    assert talk.maps[-1]["type"] == "error"
    assert talk.shut is not None


def test_jambonz_asks_for_a_rate_there_is() -> None:
    with pytest.raises(BadRequest, match="sampleRate"):
        socket_request({"sampleRate": "7000"})
