"""The wire vectors: messages and their exact bytes, for the server's tests and for clients in any language.

    python -m tests.golden.wire.vectors        writes vectors.json anew (a change there is a wire change)

In the JSON a value of bytes is {"$hex": "..."}; `hex` is the whole frame. The order of keys is part of a vector only
for what the server sends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from realtime.protocol.fish import replies
from realtime.protocol.fish.timestamps import Alignment, Segment
from realtime.protocol.fish.wire import encode

__all__ = ["FROM_CLIENT", "FROM_SERVER", "PATH", "document"]

PATH = Path(__file__).parent / "vectors.json"

FROM_CLIENT: dict[str, dict[str, Any]] = {
    "start, as small as it gets": {"event": "start", "request": {}},
    "start, as the Fish SDK sends it": {
        "event": "start",
        "request": {
            "text": "",
            "chunk_length": 200,
            "format": "pcm",
            "sample_rate": None,
            "mp3_bitrate": 128,
            "opus_bitrate": 32,
            "references": [],
            "reference_id": None,
            "normalize": True,
            "latency": "balanced",
            "prosody": None,
            "top_p": 0.7,
            "temperature": 0.7,
        },
        "debug": False,
    },
    "start with everything of ours": {
        "event": "start",
        "request": {"voice": "hazel", "format": "opus_packets", "seed": 42, "max_lead_s": 1.5, "normalize": False},
    },
    "start of a dialogue, in a hurry": {
        "event": "start",
        "request": {
            "text": "<|speaker:0|>Hello. <|speaker:1|>Hello.",
            "reference_id": ["hazel", "rowan"],
            "format": "mp3",
            "mp3_bitrate": 64,
            "latency": "low",
            "prosody": {"speed": 1.1, "volume": -3, "normalize_loudness": True},
        },
    },
    "start with a clip": {
        "event": "start",
        "request": {"references": [{"audio": b"RIFF\x00\x01", "text": "What the clip says."}], "format": "wav"},
    },
    "text": {"event": "text", "text": "Grüße, 世界. "},
    "flush": {"event": "flush"},
    "stop": {"event": "stop"},
    "cancel": {"event": "cancel"},
    "cancel at a position": {"event": "cancel", "played_ms": 1250},
    "ping": {"event": "ping", "id": "7f"},
}

FROM_SERVER: dict[str, replies.Reply] = {
    "ready": replies.Ready("3-9f2c", "willow", 24_000, 53.333, replies.Limits(16 << 20, 1_000_000, 600.0)),
    "audio": replies.Audio(time=85.25, utterance=1, seq=0, pts_ms=0.0, duration_ms=53.333, audio=b"\x00\x01\xff\x7f"),
    "audio packets": replies.Audio(
        time=138.5, utterance=1, seq=1, pts_ms=53.333, duration_ms=40.0, packets=(b"\xfc\xff\xfe", b"\xfc\x01")
    ),
    "audio with timestamps": replies.Audio(
        time=85.25,
        utterance=1,
        seq=0,
        pts_ms=0.0,
        duration_ms=53.333,
        audio=b"\x00\x01",
        content="Hello there.",
        alignment=Alignment((Segment("Hello", 0.0, 0.0533),), 0.0533),
        chunk_seq=0,
        chunk_audio_offset_sec=0.0,
    ),
    "flushed": replies.Flushed(seq=1, audio_ms=93.33),
    "cancelled": replies.Cancelled(1, "Hello there,", "this is the rest.", 93.33),
    "warning": replies.Warn("unknown_voice", "there is no voice 'x'; 'willow' speaks instead"),
    "pong": replies.Pong("7f"),
    "log": replies.Log("request 3-9f2c, seed 42"),
    "finish": replies.Finish(
        "stop",
        1910.75,
        {"chars": 29, "utf8_bytes": 29, "audio_ms": 1813.33},
        {"total": 85.2, "queue": 0.7, "prefill": 11.0, "decode": 40.1, "vocode": 33.0, "encode": 0.4},
    ),
    "finish of a failure": replies.Finish(
        "error", 0.0, {"chars": 0, "utf8_bytes": 0, "audio_ms": 0.0}, None, "bad_request", "sample_rate is -1; ..."
    ),
    "error": replies.Error("text without a stream; send start first", "bad_order", "3-9f2c"),
}


def _readable(value: Any) -> Any:
    """JSON has no bytes."""
    if isinstance(value, bytes):
        return {"$hex": value.hex()}
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list) else value


def document() -> dict[str, list[dict[str, Any]]]:
    client = {name: msgspec.msgpack.encode(message) for name, message in FROM_CLIENT.items()}
    server = {name: encode(reply) for name, reply in FROM_SERVER.items()}
    return {
        side: [
            {"name": name, "hex": frame.hex(), "message": _readable(msgspec.msgpack.decode(frame))}
            for name, frame in frames.items()
        ]
        for side, frames in (("from_client", client), ("from_server", server))
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(document(), indent=1, ensure_ascii=False) + "\n")
