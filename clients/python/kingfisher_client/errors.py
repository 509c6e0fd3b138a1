"""Everything the client raises, as one tree.

KingfisherError
├── ConnectFailed         no connection: wrong address, no server, time-out
│   └── ConnectRefused    the server said no at the handshake: `status`, `code`, `retry_after_s`
├── ServerError           the server ended the stream with an error: `code`
├── StreamBroken          the socket ended without `finish`: what was received may be incomplete
├── DeadlineExceeded      no audio, or no further audio, in time
└── MisuseError           the calls came in an order that makes no sense
"""

from __future__ import annotations

__all__ = [
    "ConnectFailed",
    "ConnectRefused",
    "DeadlineExceeded",
    "KingfisherError",
    "MisuseError",
    "ServerError",
    "StreamBroken",
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


class ServerError(KingfisherError):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class StreamBroken(KingfisherError):
    pass


class DeadlineExceeded(KingfisherError):
    pass


class MisuseError(KingfisherError):
    pass
