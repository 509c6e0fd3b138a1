"""Everything the client raises, as one tree.

KingfisherError
├── ConnectFailed           no connection: wrong address, no server, time-out
│   └── ConnectRefused      the server said no at the handshake: `status`, `code`, `retry_after_s`
├── StreamError             a stream ended before its time; `audio_ms` of sound had come
│   ├── ServerError         the server ended it: `code` (clients/PROTOCOL.md, "Errors and close codes")
│   ├── ProtocolError       the server sent what is not this protocol
│   ├── StreamBroken        the socket ended without `finish`: `close_code`
│   └── DeadlineExceeded    no audio, no further audio, or no end in time
└── MisuseError             the call makes no sense here, or is over a limit that the message names
"""

from __future__ import annotations

__all__ = [
    "ConnectFailed",
    "ConnectRefused",
    "DeadlineExceeded",
    "KingfisherError",
    "MisuseError",
    "ProtocolError",
    "ServerError",
    "StreamBroken",
    "StreamError",
]


class KingfisherError(Exception):
    """Base of all errors of this client."""


class ConnectFailed(KingfisherError):
    pass


class ConnectRefused(ConnectFailed):
    def __init__(self, status: int, code: str, message: str, retry_after_s: float | None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.retry_after_s = status, code, retry_after_s

    @property
    def is_retryable(self) -> bool:
        """Only overload passes by itself; a wrong key or voice does not."""
        return self.status in (429, 503)


class StreamError(KingfisherError):
    audio_ms: float = 0.0
    """Sound of the stream that was received: nothing after it was heard by anyone."""


class ServerError(StreamError):
    def __init__(self, code: str, message: str, *, is_finish: bool = False) -> None:
        """`is_finish`: it came as the `finish` of the stream, and the socket can be used again."""
        super().__init__(f"{code}: {message}")
        self.code, self.is_finish = code, is_finish


class ProtocolError(StreamError):
    pass


class StreamBroken(StreamError):
    def __init__(self, message: str, close_code: int | None = None) -> None:
        super().__init__(message)
        self.close_code = close_code


class DeadlineExceeded(StreamError):
    pass


class MisuseError(KingfisherError):
    pass
