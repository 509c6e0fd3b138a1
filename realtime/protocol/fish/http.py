"""Fish's HTTP bodies: requests as JSON or msgpack, errors, and the lines of the stream with timestamps."""

from __future__ import annotations

import base64
from dataclasses import replace

import msgspec

from realtime.errors import BadRequest, Refusal
from realtime.protocol.fish.messages import StartRequest
from realtime.protocol.fish.request import Defaults, parse_request
from realtime.protocol.fish.timestamps import StreamTimes
from realtime.protocol.replies import Audio
from realtime.protocol.request import HTTP_LEAD_S, StreamRequest
from realtime.text.segmenter import is_speakable

__all__ = ["Asked", "error_body", "parse_body", "timed_line"]

HTTP = Defaults(format="mp3", pcm_rate_hz=44_100, max_lead_s=HTTP_LEAD_S)

MAX_WHOLE_CHARS = 10_000
"""An answer that is sent as one lies in memory as one: about ten minutes of it."""


class _Body(StartRequest):
    """Decoded by its type: what is not read never becomes an object (see realtime.protocol.fish.wire)."""

    streaming: bool | None = None


_json, _msgpack = msgspec.json.Decoder(_Body), msgspec.msgpack.Decoder(_Body)


class Asked(msgspec.Struct):
    request: StreamRequest
    is_whole: bool
    """The client wants it all at once, with true sizes in the header."""


def parse_body(body: bytes, content_type: str) -> Asked:
    """Raises BadRequest."""
    is_msgpack = "msgpack" in content_type.lower()
    try:
        sent = (_msgpack if is_msgpack else _json).decode(body)
    except msgspec.ValidationError as error:
        raise BadRequest(f"request: {error}") from None
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadRequest(f"the body is not {'msgpack' if is_msgpack else 'JSON'}: {error}") from None
    request = parse_request(sent, HTTP)
    if request.output.format == "opus_packets":
        raise BadRequest("format opus_packets is for sockets; over HTTP choose opus")
    if not is_speakable(request.text):
        raise BadRequest("text has nothing to say")
    if sent.streaming is not False:
        return Asked(request, is_whole=False)
    if len(request.text) > MAX_WHOLE_CHARS:
        limit = f"at most {MAX_WHOLE_CHARS} with streaming false"
        raise BadRequest(f"text has {len(request.text)} characters; {limit}")
    return Asked(replace(request, max_lead_s=HTTP_LEAD_S), is_whole=True)


def error_body(refusal: Refusal, status: int) -> dict[str, object]:
    """An object, always: clients read its `message`, and one breaks on anything else."""
    return {"status": status, "message": str(refusal), "reason": refusal.code, "code": refusal.code}


def timed_line(audio: Audio, times: StreamTimes) -> bytes:
    """One server-sent event."""
    fields = {
        "audio_base64": base64.b64encode(audio.chunk.data).decode(),
        **msgspec.to_builtins(times.take(audio)),
        "time": audio.time_ms,
    }
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"
