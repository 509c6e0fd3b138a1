"""Whatever comes in a body, a form or a query: a request, or a BadRequest that says what is wrong; nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from realtime.errors import BadRequest
from realtime.protocol.fish.http import parse_body
from realtime.protocol.fish.messages import StartRequest
from realtime.protocol.fish.voices import builtin_entity, page_of, read_form, read_page
from realtime.protocol.openai.speech import SpeechBody, speech_request
from realtime.text.speakers import SpeakerSplitter

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from([*StartRequest.__struct_fields__, "streaming", "unknown"])


@given(st.binary(max_size=200), st.sampled_from(["application/json", "application/msgpack", ""]))
def test_any_bytes_for_a_body(body: bytes, kind: str) -> None:
    with suppress(BadRequest):
        parse_body(body, kind)


@given(st.dictionaries(FIELDS, VALUES, max_size=5))
def test_any_values_for_the_fields(fields: dict[str, Any]) -> None:
    with suppress(BadRequest):
        asked = parse_body(msgspec.msgpack.encode({"text": "Hello."} | fields), "application/msgpack")
        output = asked.request.output
        assert 0.5 <= output.speed <= 2
        assert -20 <= output.volume_db <= 20
        assert output.sample_rate_hz is None or 8_000 <= output.sample_rate_hz <= 48_000
        assert 32_000 <= output.mp3_bitrate <= 192_000


@given(st.dictionaries(st.sampled_from(SpeechBody.__struct_fields__), VALUES, max_size=5))
def test_any_values_for_openais_fields(fields: dict[str, Any]) -> None:
    with suppress(BadRequest, msgspec.ValidationError):
        body = msgspec.convert({"input": "Hello."} | fields, SpeechBody)
        request, _ = speech_request(body, "anna")
        assert request.voice == "anna"


NAMES = st.sampled_from(["title", "description", "tags", "texts", "visibility", "type", "train_mode", "x"])


@given(st.dictionaries(NAMES, st.lists(st.text(max_size=300), max_size=3)))
def test_any_form(fields: dict[str, list[str]]) -> None:
    with suppress(BadRequest):
        form = read_form(fields)
        assert all(tag == tag.strip() != "" for tag in form.tags or ())


PAGE_FIELDS = ["page_size", "page_number", "title", "tag", "language", "title_language", "author_id"]


@given(st.dictionaries(st.sampled_from(PAGE_FIELDS), st.text(max_size=12)))
def test_any_page(query: dict[str, str]) -> None:
    with suppress(BadRequest):
        page = read_page(query)
        entities = [builtin_entity(str(i), "") for i in range(120)]
        assert len(page_of(entities, page)["items"]) <= min(page.size, 100)


@given(st.lists(st.sampled_from(["<|speaker:", "1", "|>", "<", "a ", "<|speaker:0|>", "|"]), max_size=12))
def test_a_dialogue_in_pieces_is_the_dialogue_at_once(pieces: list[str]) -> None:
    whole, parts = SpeakerSplitter(), SpeakerSplitter()
    at_once = whole.feed("".join(pieces)) + whole.flush()
    in_pieces = [said for piece in pieces for said in parts.feed(piece)] + parts.flush()

    def joined(said: list[tuple[int, str]]) -> list[tuple[int, str]]:
        turns: list[tuple[int, str]] = []
        for speaker, text in said:
            if turns and turns[-1][0] == speaker:
                turns[-1] = (speaker, turns[-1][1] + text)
            else:
                turns.append((speaker, text))
        return turns

    assert joined(in_pieces) == joined(at_once)
