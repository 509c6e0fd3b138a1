"""Client for the Kingfisher speech server: `AsyncClient`, and `Client` for code without asyncio."""

from kingfisher_client.client import AsyncClient
from kingfisher_client.deadlines import Timeouts
from kingfisher_client.errors import (
    ConnectFailed,
    ConnectRefused,
    DeadlineExceeded,
    KingfisherError,
    MisuseError,
    ProtocolError,
    ServerError,
    StreamBroken,
    StreamError,
)
from kingfisher_client.events import Alignment, Audio, Cancelled, Event, Finish, Flushed, Ready, Segment, Warning
from kingfisher_client.player import Device, Player
from kingfisher_client.request import Format, Prosody, Reference, SpeechRequest, StreamRequest
from kingfisher_client.sound import OpusPacketDecoder, save_wav
from kingfisher_client.speaker import Speaker
from kingfisher_client.stream import Stream
from kingfisher_client.sync import Client, SyncStream

__all__ = [
    "Alignment",
    "AsyncClient",
    "Audio",
    "Cancelled",
    "Client",
    "ConnectFailed",
    "ConnectRefused",
    "DeadlineExceeded",
    "Device",
    "Event",
    "Finish",
    "Flushed",
    "Format",
    "KingfisherError",
    "MisuseError",
    "OpusPacketDecoder",
    "Player",
    "Prosody",
    "ProtocolError",
    "Ready",
    "Reference",
    "Segment",
    "ServerError",
    "Speaker",
    "SpeechRequest",
    "Stream",
    "StreamBroken",
    "StreamError",
    "StreamRequest",
    "SyncStream",
    "Timeouts",
    "Warning",
    "save_wav",
]
