"""OpenAI's Realtime socket, played by hand: what is spoken, when it ends, and that nothing a client sends kills it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime.protocol import events
from realtime.protocol.openai.realtime import MAX_WAITING_CHARS, RealtimeSocket
from realtime.protocol.openai.session import Session
from realtime.protocol.openai.speech import VoiceId, voice_for
from tests.dialect_talk import LIMITS, VOICES, DialectTalk, new_context


def talk() -> DialectTalk:
    return DialectTalk(
        lambda now: RealtimeSocket(
            new_context,
            Session("anna", "anna"),
            lambda name: voice_for(name, VOICES, VOICES),
            LIMITS,
            session_id="s1",
            model="kingfisher",
            now=now,
        )
    )


def item(text: str, kind: str = "input_text", **fields: Any) -> dict[str, Any]:
    content = [{"type": kind, "text": text}]
    return {"type": "conversation.item.create", "item": {"type": "message", "content": content} | fields}


def of(talk: DialectTalk, kind: str) -> list[dict[str, Any]]:
    return [message for message in talk.maps if message["type"] == kind]


RESPOND = {"type": "response.create"}


def test_a_response_speaks_what_was_created_since_the_last_one() -> None:
    client = talk()
    client.send(
        item("First."), item("You are kind.", role="system"), item("And second one.", role="assistant"), RESPOND
    )
    client.run()
    client.send(item("Third one."), RESPOND)
    client.run()
    assert client.spoken() == ["First. And second one.", "Third one."]
    assert [done["response"]["status"] for done in of(client, "response.done")] == ["completed"] * 2


def test_text_that_waits_has_a_bound_and_the_socket_goes_on() -> None:
    client = talk()
    half = "A word. " * (MAX_WAITING_CHARS // 16)
    for _ in range(3):
        client.send(item(half))
    (refused,) = of(client, "error")
    assert f"over {MAX_WAITING_CHARS} characters" in refused["error"]["message"]
    assert len(of(client, "conversation.item.done")) == 2
    client.send(RESPOND)
    client.run()
    client.send(item(half))
    assert of(client, "error") == [refused]


def test_the_responses_own_input_is_spoken_instead() -> None:
    client = talk()
    asked = {"input": [item("Only this.")["item"]]}
    client.send(RESPOND | {"response": asked})
    client.run()
    assert client.spoken() == ["Only this."]


def test_the_transcript_is_the_text() -> None:
    client = talk()
    client.send(item("One sentence. Another one."), RESPOND)
    client.run()
    (done,) = of(client, "response.output_audio_transcript.done")
    assert done["transcript"] == "One sentence. Another one."
    assert "".join(d["delta"] for d in of(client, "response.output_audio_transcript.delta")) == done["transcript"]


def test_after_a_cancel_there_is_no_sound_and_the_next_response_is_whole() -> None:
    client = talk()
    client.send(item("Words that nobody hears. To their end."), RESPOND)
    client.make()
    client.deliver()
    client.send({"type": "response.cancel"})
    heard = len(of(client, "response.output_audio.delta"))
    client.run()
    assert len(of(client, "response.output_audio.delta")) == heard == 1
    client.send(item("Again."), RESPOND)
    client.run()
    assert [done["response"]["status"] for done in of(client, "response.done")] == ["cancelled", "completed"]


@pytest.mark.parametrize(("asked_ms", "told_ms"), [(100, 100), (1e9, 300), (-5, 0)])
def test_truncation_is_clamped_to_what_was_sent(asked_ms: float, told_ms: int) -> None:
    client = talk()
    client.send(item("Hello."), RESPOND)
    client.run()
    id_ = of(client, "response.done")[0]["response"]["output"][0]["id"]
    client.send({"type": "conversation.item.truncate", "item_id": id_, "content_index": 0, "audio_end_ms": asked_ms})
    assert of(client, "conversation.item.truncated")[0]["audio_end_ms"] == told_ms


@pytest.mark.parametrize(
    "session",
    [
        {"audio": {"output": {"voice": "ben", "speed": 1.5, "format": {"type": "audio/pcmu"}}}},
        {"voice": "ben", "speed": 1.5, "output_audio_format": "g711_ulaw"},
    ],
)
def test_the_session_takes_both_forms_of_settings(session: dict[str, Any]) -> None:
    client = talk()
    client.send({"type": "session.update", "session": session}, item("Hello."), RESPOND)
    asked = [event for _, event in client.asked]
    output = next(event.output for event in asked if isinstance(event, events.Begin))
    assert (output.format, output.sample_rate_hz, output.speed) == ("mulaw", 8_000, 1.5)
    assert [event.name for event in asked if isinstance(event, events.UseVoice)][-1] == "ben"


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        (RESPOND, "nothing to say"),
        ({"type": "response.cancel"}, "response_cancel_not_active"),
        ({"type": "input_audio_buffer.append", "audio": ""}, "only speaks"),
        ({"type": "session.update"}, "lacks a field"),
        ({"type": "session.update", "session": {"speed": 9}}, "between 0.25 and 1.5"),
        ({"type": "session.update", "session": {"output_modalities": ["text"]}}, "only speech"),
        ({"type": "session.update", "session": {"output_audio_format": "mp3"}}, "audio/pcm"),
        (item("x", "input_audio"), "input_text"),
        ({"type": "conversation.item.truncate", "item_id": "x", "audio_end_ms": 1}, "no such item"),
        ("{", "not a message"),
        ("[1]", "not a message"),
        ("[" * 5_000, "not a message"),
    ],
)
def test_what_cannot_be_done_is_an_error_event_and_the_socket_goes_on(message: Any, hint: str) -> None:
    client = talk()
    client.send(message)
    assert hint in client.maps[-1]["error"]["message"]
    client.send(item("Hello."), RESPOND)
    client.run()
    assert client.shut is None
    assert of(client, "response.done")[0]["response"]["status"] == "completed"


def test_one_response_at_a_time() -> None:
    client = talk()
    client.send(item("Hello."), RESPOND, item("More."), RESPOND)
    assert "conversation_already_has_active_response" in client.maps[-1]["error"]["message"]
    client.run()
    client.send(RESPOND)
    client.run()
    assert client.spoken() == ["Hello.", "More."]


STEPS = st.sampled_from(
    [item("Hello there. "), item("..."), RESPOND, {"type": "response.cancel"}, "make", "deliver", "{", {"type": "x"}]
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25))
def test_every_response_that_begins_ends_once(steps: list[Any]) -> None:
    client = talk()
    for step in steps:
        if step == "make":
            client.make()
        elif step == "deliver":
            client.deliver()
        else:
            client.send(step)
    client.run()
    begun = [message["response"]["id"] for message in of(client, "response.created")]
    assert [message["response"]["id"] for message in of(client, "response.done")] == begun
    assert client.shut is None


@pytest.mark.parametrize("name", ["alloy", "nova", "", None, VoiceId("x"), "../../x", "ä" * 100])
def test_any_name_means_a_voice_and_always_the_same(name: Any) -> None:
    assert voice_for(name, VOICES, VOICES) == voice_for(name, VOICES, VOICES)
    assert voice_for(name, VOICES, VOICES) in VOICES
