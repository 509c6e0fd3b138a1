"""Client for the Kingfisher speech server: `AsyncClient`, and `Client` for code without asyncio."""

from kingfisher_client.client import AsyncClient, Stream
from kingfisher_client.errors import (
    ConnectFailed,
    ConnectRefused,
    DeadlineExceeded,
    KingfisherError,
    MisuseError,
    ServerError,
    StreamBroken,
)
from kingfisher_client.events import Audio, Cancelled, Event, Finish, Flushed, Ready, Warning
from kingfisher_client.sync import Client

__all__ = [
    "AsyncClient",
    "Audio",
    "Cancelled",
    "Client",
    "ConnectFailed",
    "ConnectRefused",
    "DeadlineExceeded",
    "Event",
    "Finish",
    "Flushed",
    "KingfisherError",
    "MisuseError",
    "Ready",
    "ServerError",
    "Stream",
    "StreamBroken",
    "Warning",
]
