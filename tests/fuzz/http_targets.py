"""What is fuzzed besides the sockets' messages: bodies and queries of every route, forms, keys, stored voices."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection, Request

from realtime.errors import BadKey, BadRequest, TooBig
from realtime.protocol.cartesia.messages import SpeechBody as CartesiaBody
from realtime.protocol.cartesia.request import body_output, raw_output
from realtime.protocol.cartesia.request import speech_request as cartesia_request
from realtime.protocol.deepgram.messages import SpeechBody as DeepgramBody
from realtime.protocol.deepgram.request import socket_request as deepgram_socket
from realtime.protocol.deepgram.request import speech_request as deepgram_request
from realtime.protocol.elevenlabs.messages import SpeechBody as ElevenLabsBody
from realtime.protocol.elevenlabs.request import socket_settings as elevenlabs_socket
from realtime.protocol.elevenlabs.request import speech_request as elevenlabs_request
from realtime.protocol.events import OutputSpec
from realtime.protocol.fish.http import parse_body
from realtime.protocol.fish.voices import MAX_TAGS, builtin_entity, page_of, read_form, read_page
from realtime.protocol.hooks.jambonz import socket_request as jambonz_socket
from realtime.protocol.hooks.requests import (
    JambonzBody,
    TrtcBody,
    VapiBody,
    jambonz_request,
    trtc_request,
    vapi_request,
)
from realtime.protocol.openai.speech import SpeechBody as OpenAiBody
from realtime.protocol.openai.speech import speech_request as openai_request
from realtime.server.auth import check_key
from realtime.server.body import read_json
from realtime.server.forms import files_of, form_of, texts_of
from realtime.server.tokens import make_token
from realtime.voices.record import BadRecord, VoiceRecord, decode_record, encode_record

__all__ = ["HTTP_TARGETS", "http_seeds", "posted"]

MAX_BYTES = 1 << 16
MAX_ERROR_CHARS = 2_000
KEYS = ("kf-first-key-1", "kf-second-key-2")

_Body = TypeVar("_Body")
Query = Mapping[str, str]


def posted(body: bytes, content_type: str = "application/json") -> Request:
    """A POST request that has come in whole."""
    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", content_type.encode("latin-1"))]}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(scope, receive)


def _read(kind: type[_Body]) -> Callable[[bytes], _Body]:
    """As the routes read it."""
    return lambda body: asyncio.run(read_json(posted(body), kind, MAX_BYTES))


def _fish(content_type: str) -> Callable[[bytes, Query], OutputSpec]:
    return lambda body, _: parse_body(body, content_type).request.output


PARSERS: list[Callable[[bytes, Query], OutputSpec]] = [
    _fish("application/json"),
    _fish("application/msgpack"),
    lambda body, _: openai_request(_read(OpenAiBody)(body), "anna")[0].output,
    lambda body, query: elevenlabs_request("anna", _read(ElevenLabsBody)(body), query).output,
    lambda body, _: cartesia_request(read := _read(CartesiaBody)(body), body_output(read.output_format)).output,
    lambda body, _: cartesia_request(read := _read(CartesiaBody)(body), raw_output(read.output_format)).output,
    lambda body, query: deepgram_request(_read(DeepgramBody)(body), query).output,
    lambda body, query: vapi_request(_read(VapiBody)(body), query.get("voice")).output,
    lambda body, _: jambonz_request(_read(JambonzBody)(body)).output,
    lambda body, _: trtc_request(_read(TrtcBody)(body)).output,
    lambda _, query: elevenlabs_socket("anna", query).output,
    lambda _, query: deepgram_socket(query).output,
    lambda _, query: jambonz_socket(query).output,
]


def bodies(data: bytes) -> None:
    """A parser's number, a query up to the end of the line, a body: a sound that an encoder can make, or a no that is
    not longer than it needs to be."""
    line, _, body = data[1:].partition(b"\n")
    query = QueryParams(line.decode("latin-1"))
    try:
        output = PARSERS[data[0] % len(PARSERS)](body, query) if data else OutputSpec()
    except (BadRequest, TooBig) as fault:
        assert 0 < len(str(fault)) < MAX_ERROR_CHARS, "an error repeats what was sent"
        return
    assert output.sample_rate_hz is None or 8_000 <= output.sample_rate_hz <= 48_000
    assert 0.25 <= output.speed <= 4
    assert -20 <= output.volume_db <= 20
    assert 16_000 <= output.mp3_bitrate <= 192_000


def forms(data: bytes) -> None:
    """A content type up to the end of the line, a body: bounded fields and files, or a documented no."""
    content_type, _, body = data.partition(b"\n")

    async def read() -> None:
        async with form_of(posted(body, content_type.decode("latin-1")), MAX_BYTES) as form:
            form_fields, clips = texts_of(form), await files_of(form, "voices")
            assert sum(map(len, clips)) <= len(body)
            voice = read_form(form_fields)
            assert len(voice.tags or ()) <= MAX_TAGS

    try:
        asyncio.run(read())
    except (BadRequest, TooBig) as fault:
        assert len(str(fault)) < MAX_ERROR_CHARS, "an error repeats what was sent"


def pages(data: bytes) -> None:
    """The query of a list of voices."""
    with suppress(BadRequest):
        page = read_page(QueryParams(data.decode("latin-1")))
        listed = [builtin_entity(str(i), "") for i in range(120)]
        assert len(page_of(listed, page)["items"]) <= 100


def keys(data: bytes) -> None:
    """Lines of a head, the query first: nobody comes in whose head holds no key and no token of one."""
    query, *lines = data.split(b"\n")
    headers = [(name.lower().strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    offered = [value for name, value in headers if name == b"sec-websocket-protocol"]
    names = [name.strip() for value in offered for name in value.decode("latin-1").split(",")]
    scope = {"type": "websocket", "headers": headers, "query_string": query, "subprotocols": names}
    try:
        found = check_key(HTTPConnection(scope), KEYS)
    except BadKey:
        return
    sent = QueryParams(query.decode("latin-1")).values()
    given = "\n".join([data.decode("latin-1"), *sent])
    assert found in KEYS
    # The fuzzer cannot sign, so the key itself must have been there.
    assert found in given, "somebody came in without a key"


def voice_file(data: bytes) -> None:
    """Bytes of a stored voice, as they are and behind a true check sum: a voice whose codes fill its codebooks, or a
    damaged one."""
    for stored in (data, b"kfvoice1" + zlib.crc32(data).to_bytes(4, "big") + data):
        with suppress(BadRecord):
            record = decode_record(stored)
            assert record.codebooks >= 1
            assert len(record.codes) % (2 * record.codebooks) == 0
            assert decode_record(encode_record(record)) == record


HTTP_TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (bodies, forms, pages, keys, voice_file)
}


def http_seeds(target: str) -> list[bytes]:
    """Inputs to begin with; what libFuzzer finds from there is up to it."""
    record = VoiceRecord(id="a", title="Anna", transcript="Hello.", codes=bytes(40), codebooks=10, tags=("x",))
    token = make_token(KEYS[0], 0.0).encode()
    basic = base64.b64encode(KEYS[0].encode())
    return {
        "bodies": [bytes([number]) + seed for number, seed in enumerate(_BODIES)],
        "forms": [
            b"multipart/form-data; boundary=b\n"
            b'--b\r\nContent-Disposition: form-data; name="title"\r\n\r\nAnna\r\n'
            b'--b\r\nContent-Disposition: form-data; name="voices"; filename="a.wav"\r\n\r\nsound\r\n--b--\r\n',
            b"multipart/form-data; boundary=b; charset=utf-7\n--b\r\nContent-Disposition: form-data\r\n\r\n--b--",
            b"application/x-www-form-urlencoded\ntitle=Anna&tags=a%2Cb&visibility=private",
        ],
        "pages": [b"page_size=10&page_number=2&title=x&tag=a,b&language=en&self=true"],
        "keys": [
            b"api_key=x\nauthorization: Bearer " + token,
            b"\nsec-websocket-protocol: kingfisher, " + token,
            b"token=%6b\nxi-api-key: y\nsec-websocket-protocol: openai-insecure-api-key.z",
            b"\nauthorization: Basic " + basic,
        ],
        "voice_file": [encode_record(record), msgspec.msgpack.encode(record)],
    }[target]


_BODIES = (
    b'\n{"text": "Hello.", "format": "mp3", "prosody": {"speed": 1.2, "volume": -3}, "streaming": false}',
    b"\n\x82\xa4text\xa6Hello.\xa6format\xa3wav",
    b'\n{"input": "Hello.", "voice": {"id": "x"}, "response_format": "opus", "speed": 0.5, "stream_format": "sse"}',
    b'output_format=mp3_44100_64\n{"text": "Hello.", "seed": 7, "voice_settings": {"speed": 0.8}}',
    b'\n{"transcript": "Hello.", "voice": {"mode": "id", "id": "x"}, "output_format": {"container": "wav"}}',
    b'\n{"transcript": "Hello.", "generation_config": {"speed": 1.1, "volume": 0.7, "emotion": "neutral"}}',
    b'encoding=opus&bit_rate=32000&speed=1.2\n{"text": "Hello."}',
    b'voice=x\n{"message": {"type": "voice-request", "text": "Hello.", "sampleRate": 24000}}',
    b'\n{"text": "Hello.", "type": "text", "sampleRate": 16000}',
    b'\n{"Text": "Hello.", "Format": "wav", "SampleRate": 8000, "Channel": 1}',
    b"output_format=ulaw_8000&auto_mode=true&inactivity_timeout=5&apply_text_normalization=off\n",
    b"encoding=mulaw&container=none&sample_rate=8000&speed=0.9\n",
    b"sampleRate=16000&voice=x\n",
)
