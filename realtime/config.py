"""Server settings: command line over environment (KINGFISHER_*) over defaults, checked once, never changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from realtime.audio.pauses import QUIET_DBFS

__all__ = ["CHOICES", "ServerConfig", "SettingError"]

PREFIX = "KINGFISHER_"
OTHERS = frozenset({"KINGFISHER_API_KEYS_FILE", "KINGFISHER_API_KEY", "KINGFISHER_URL", "KINGFISHER_CLIENTS_DIR"})
"""Variables that are no field: where the keys are, what `kingfisher say` reads, and what `make clients` does."""
CHOICES = {
    "device": ("cpu", "cuda"),
    "backend": ("auto", "native", "reference"),
    "precision": ("auto", "bf16", "fp8"),
    "kv_cache": ("bf16", "fp8"),
    "log_level": ("debug", "info", "warning", "error"),
}


class SettingError(ValueError):
    """A setting that cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = 8000
    model: str = "bundled"
    """`bundled`, `null` (tones, no model), `s2-pro-random` (noise at full size, on a GPU), or a checkpoint folder."""
    device: str = "cpu"
    """`cpu` or `cuda`."""
    backend: str = "auto"
    """On the CPU: `auto` (native, or reference where there is no compiler), `native` or `reference`."""
    precision: str = "auto"
    """On a GPU: `bf16`, `fp8`, or `auto` (FP8 for models of a billion parameters and more)."""
    kv_cache: str = "bf16"
    """On a GPU: keys and values in `bf16`, or in `fp8`, half the bytes for attention to read."""
    voices_dir: str = "~/.local/share/kingfisher/voices"
    """Uploaded voices, and the codes of clips that were encoded; made at the first upload."""
    slots: int = 8
    """Sessions that can hold prefilled state at once."""
    context_tokens: int = 0
    """KV positions of a slot; 0 takes the model's maximum (2048 on a GPU)."""
    max_sessions: int = 256
    queue_s: float = 10.0
    """How long a session with something to say waits for a slot."""
    quiet_dbfs: float = QUIET_DBFS
    """Sound whose peaks stay under this level (dB of full scale) is silence, and silence where units meet is kept to a
    natural length. For a voice whose silences hiss, raise it; under -90 nothing but digital silence is cut."""
    workers: int = min(8, os.cpu_count() or 1)
    """Encoder processes: by default one for each core, up to eight. A stream takes 1.2 % of a core."""
    drain_s: float = 30.0
    """On SIGTERM: how long running streams may go on."""
    idle_s: float = 600.0
    stall_s: float = 30.0
    """A client that takes no data for so long is dropped."""
    handshake_s: float = 10.0
    """A connection that has sent no whole request after this time is ended."""
    ping_s: float = 20.0
    """Between pings, and how long an answer may take. Proxies drop sockets that are quiet for a minute."""
    max_out_bytes: int = 4 << 20
    """Unsent output of one session; more means that the client does not read."""
    max_stream_chars: int = 1_000_000
    max_message_bytes: int = 16 << 20
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """Accepted keys, each alone or behind its owner's name and a blank; none means no authentication."""
    tls_cert: str = ""
    """PEM file of the certificate and its chain; empty: no TLS."""
    tls_key: str = ""
    """PEM file of its key, without a password."""
    key_sessions: int = 0
    """Sockets and requests that one key may have open at once; 0 sets no limit of its own."""
    key_sessions_per_minute: int = 0
    """How many it may open in a minute; 0 sets no limit."""
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name in ("slots", "max_sessions", "workers", "max_out_bytes", "max_stream_chars", "max_message_bytes"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("queue_s", "drain_s", "idle_s", "stall_s", "handshake_s", "ping_s"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} must be above 0, not {getattr(self, name)}")
        if not self.quiet_dbfs < 0:
            raise SettingError(f"quiet_dbfs must be under 0, not {self.quiet_dbfs}")
        for name in ("context_tokens", "key_sessions", "key_sessions_per_minute"):
            if getattr(self, name) < 0:
                raise SettingError(f"{name} must be at least 0, not {getattr(self, name)}")
        if not 0 <= self.port <= 65_535:
            raise SettingError(f"port must lie between 0 and 65535, not {self.port}")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SettingError("tls_cert and tls_key go together; one of them is missing")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}")

    @classmethod
    def read(cls, arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> ServerConfig:
        """`arguments` hold what the command line set (None: not given). Raises SettingError."""
        environment = os.environ if environment is None else environment
        values: dict[str, Any] = {}
        known = {f.name: f for f in fields(cls)}
        for key, text in environment.items():
            name = key.removeprefix(PREFIX).lower()
            if not key.startswith(PREFIX) or key in OTHERS:
                continue
            if name not in known:
                raise SettingError(f"{key} is not a setting; known are {', '.join(sorted(known))}")
            values[name] = _parse(key, text, known[name].default)
        keys_file = arguments.get("api_keys_file") or environment.get(PREFIX + "API_KEYS_FILE")
        if keys_file:
            values["api_keys"] = _read_keys(Path(keys_file))
        values |= {k: v for k, v in arguments.items() if v is not None and k in known}
        return cls(**values)


def _parse(key: str, text: str, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(filter(None, (part.strip() for part in text.split(","))))
    try:
        return type(default)(text)
    except ValueError:
        raise SettingError(f"{key} is {text!r}; expected {type(default).__name__}") from None


def _read_keys(path: Path) -> tuple[str, ...]:
    """One key per line; empty lines and lines that begin with # are skipped."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise SettingError(f"the key file cannot be read: {error}") from None
    keys = tuple(" ".join(line.split()) for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not keys:
        raise SettingError(f"{path} holds no keys")
    if any(key.count(" ") > 1 for key in keys):
        raise SettingError(f"{path}: a line is a key, or the name of its owner and a key")
    return keys
