"""What the server measures, for Prometheus. Units are in the names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from realtime.runtime.engine_loop import StepTimes

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One registry per server; no global state."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.sessions = Gauge("kingfisher_sessions", "Open sockets.", registry=registry)
        self.slots_used = Gauge("kingfisher_slots_used", "Slots held by sessions.", registry=registry)
        self.speaking = Gauge("kingfisher_sessions_speaking", "Sessions with speech under way.", registry=registry)
        self.refused = Counter("kingfisher_refused_total", "Handshakes refused.", ["code"], registry=registry)
        self.streams = Counter("kingfisher_streams_total", "Streams finished.", ["reason"], registry=registry)
        self.cancelled = Counter("kingfisher_cancelled_total", "Utterances cancelled.", registry=registry)
        self.audio_s = Counter("kingfisher_audio_seconds_total", "Sound sent.", registry=registry)
        self.dropped = Counter("kingfisher_clients_dropped_total", "Clients that did not read.", registry=registry)
        self.ttfa_s = Histogram(
            "kingfisher_ttfa_seconds",
            "First text of a stream to first audio handed to the socket.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.loop_late_s = Histogram(
            "kingfisher_loop_late_seconds",
            "How late the event loop woke for its tick.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._decode_s = Histogram(
            "kingfisher_decode_step_seconds", "Decode part of a step.", registry=registry, buckets=_SECONDS
        )
        self._vocode_s = Histogram(
            "kingfisher_vocode_step_seconds", "Codec part of a step.", registry=registry, buckets=_SECONDS
        )
        self._rows = Histogram(
            "kingfisher_decode_rows", "Rows of a step.", registry=registry, buckets=(0, 1, 2, 4, 8, 16, 32, 64, 128)
        )

    def observe_stream(self, reason: str, ttfa_ms: float | None) -> None:
        self.streams.labels(reason).inc()
        if ttfa_ms is not None:
            self.ttfa_s.observe(ttfa_ms / 1000)

    def observe_step(self, times: StepTimes) -> None:
        """Called on the decode thread."""
        if times.rows:
            self._decode_s.observe(times.decode_s)
        if times.vocode_s:
            self._vocode_s.observe(times.vocode_s)
        self._rows.observe(times.rows)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
