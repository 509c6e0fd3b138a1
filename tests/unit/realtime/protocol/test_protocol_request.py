"""`start.request`: every field is honoured, clamped as documented, or an error that names it and what is allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from realtime.errors import BadRequest
from realtime.protocol.events import OutputSpec, Reference
from realtime.protocol.fish.request import parse_request
from tests.session_talk import Talk

LATENCIES = ("low", "balanced", "normal")


def test_an_empty_request_is_all_defaults() -> None:
    request = parse_request({})
    assert request == parse_request(None)
    assert request.output == OutputSpec("opus", None, 32_000)
    assert (request.temperature, request.top_p, request.max_lead_s, request.chunk_chars) == (0.7, 0.8, 3.0, 200)
    assert request.normalize
    assert request.seed is None
    assert request.voice is None
    assert request.reference is None


def test_null_means_the_default_for_every_field() -> None:
    fields = "text reference_id voice references format sample_rate opus_bitrate chunk_length normalize".split()
    fields += "temperature top_p seed max_lead_s prosody mp3_bitrate latency features".split()
    assert parse_request(dict.fromkeys(fields)) == parse_request({})


def test_what_clients_in_the_field_send_is_understood() -> None:
    livekit = {
        "text": "", "chunk_length": 100, "format": "wav", "sample_rate": 24000, "mp3_bitrate": 64,
        "opus_bitrate": 64000, "references": [], "reference_id": "933563129e564b19a115bedd57b7406a", "normalize": True,
        "latency": "balanced", "prosody": None, "top_p": 0.7, "temperature": 0.7, "features": ["quality-guard"],
    }  # fmt: skip
    request = parse_request(livekit)
    assert request.output == OutputSpec("wav", 24_000, None)
    assert request.chunk_chars == 100
    assert request.reference_id == livekit["reference_id"]


@pytest.mark.parametrize("name", ["opus", "OPUS", "opus_packets", "pcm", "wav", "Wav", "mp3", "aac", "flac"])
def test_formats_are_case_blind(name: str) -> None:
    assert parse_request({"format": name}).output.format == name.lower()


@pytest.mark.parametrize("name", ["mp4", "ulaw", "", "pcm16", "opus "])
def test_other_formats_are_refused_with_the_list(name: str) -> None:
    with pytest.raises(BadRequest, match="opus, opus_packets, pcm, wav, mp3, aac, flac"):
        parse_request({"format": name})


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000])
def test_pcm_rates(rate: int) -> None:
    assert parse_request({"format": "pcm", "sample_rate": rate}).output.sample_rate_hz == rate


@pytest.mark.parametrize(
    ("sent", "means"),
    [(32, 32_000), (64_000, 64_000), (-1000, None), (16, 16_000), (128_000, 128_000), (None, 32_000)],
)
def test_bit_rates_come_in_three_dialects(sent: int | None, means: int | None) -> None:
    assert parse_request({"format": "opus", "opus_bitrate": sent}).output.opus_bitrate == means


@pytest.mark.parametrize(("sent", "means"), [(64, 64_000), (192_000, 192_000), (-1000, 128_000), (None, 128_000)])
def test_the_bit_rate_of_mp3_comes_in_the_same_ones(sent: int | None, means: int) -> None:
    assert parse_request({"format": "mp3", "mp3_bitrate": sent}).output.mp3_bitrate == means


def test_prosody_goes_into_the_output() -> None:
    output = parse_request({"prosody": {"speed": 1.5, "volume": -3, "normalize_loudness": True}}).output
    assert (output.speed, output.volume_db) == (1.5, -3.0)


def test_each_latency_begins_earlier_than_the_next() -> None:
    low, balanced, normal = (parse_request({"latency": name}).first_clause_chars for name in LATENCIES)
    assert low is not None
    assert balanced is not None
    assert low < balanced
    assert normal is None


def test_a_dialogue_has_a_voice_or_a_clip_for_each_speaker() -> None:
    assert parse_request({"reference_id": ["anna", "ben"]}).speakers == ("anna", "ben")
    clips = [[{"audio": b"a", "text": "A."}], [{"audio": "Yg==", "text": "B."}]]
    assert parse_request({"references": clips}).speakers == (Reference((b"a",), "A."), Reference((b"b",), "B."))


def test_a_list_of_one_is_one_voice() -> None:
    assert parse_request({"reference_id": ["anna"]}) == parse_request({"reference_id": "anna"})


def test_a_bit_rate_that_is_not_used_is_not_judged() -> None:
    assert parse_request({"format": "pcm", "opus_bitrate": 5}).output.opus_bitrate is None


@pytest.mark.parametrize(("sent", "means"), [(0, 100), (99, 100), (150, 150), (1000, 300), (-5, 100)])
def test_chunk_length_is_clamped(sent: int, means: int) -> None:
    assert parse_request({"chunk_length": sent}).chunk_chars == means


def test_temperature_zero_is_as_cold_as_it_gets() -> None:
    assert parse_request({"temperature": 0}).temperature == 0.01


def test_a_reference_clip() -> None:
    request = parse_request({"references": [{"audio": b"RIFF", "text": "What it says."}]})
    assert request.reference == Reference((b"RIFF",), "What it says.")


@pytest.mark.parametrize(("texts", "transcript"), [(("A.", "B."), "A. B."), (("A.", ""), ""), (("", ""), "")])
def test_several_clips_are_one_voice_and_their_transcript_counts_when_it_is_whole(
    texts: tuple[str, str], transcript: str
) -> None:
    sent = [{"audio": audio, "text": text} for audio, text in zip((b"a", b"b"), texts, strict=True)]
    expected = Reference((b"a", b"b"), transcript)
    assert parse_request({"references": sent}).reference == expected
    assert parse_request({"references": [sent]}).reference == expected
    assert parse_request({"references": [sent, sent]}).speakers == (expected, expected)


BAD: list[tuple[str, Any, str]] = [
    ("sample_rate", -24_000, "8000, 16000"),
    ("sample_rate", 12_345, "8000, 16000"),
    ("sample_rate", "24000", "sample_rate"),
    ("sample_rate", 24_000.5, "sample_rate"),
    ("temperature", -0.1, "between 0 and 2"),
    ("temperature", 2.1, "between 0 and 2"),
    ("temperature", math.nan, "between 0 and 2"),
    ("temperature", True, "temperature"),
    ("top_p", 0, "between 0 and 1"),
    ("top_p", 1.5, "between 0 and 1"),
    ("top_p", math.inf, "between 0 and 1"),
    ("seed", -1, "seed"),
    ("seed", 1 << 63, "seed"),
    ("max_lead_s", 0.1, "between 0.2 and 30"),
    ("max_lead_s", 31, "between 0.2 and 30"),
    ("text", 5, "text"),
    ("voice", 5, "voice"),
    ("reference_id", [5], "reference_id"),
    ("reference_id", ["a"] * 9, "at most 8"),
    ("references", [{"audio": b"a"}] * 21, "21 clips"),
    ("references", [{"text": "no audio"}], "audio"),
    ("references", [[{"audio": b"a"}] * 21, [{"audio": b"b"}]], "21 clips"),
    ("references", [[], [{"audio": b"b"}]], "0 clips"),
    ("latency", "fast", "normal, balanced, low"),
    ("prosody", {"speed": 3}, "between 0.5 and 2"),
    ("prosody", {"volume": -21}, "between -20 and 20"),
    ("normalize", "no", "normalize"),
]


@pytest.mark.parametrize(("field", "value", "hint"), BAD, ids=[f"{f}={v!r:.20}" for f, v, _ in BAD])
def test_a_bad_value_is_refused_and_named(field: str, value: Any, hint: str) -> None:
    with pytest.raises(BadRequest, match=hint) as caught:
        parse_request({"format": "pcm", field: value})
    assert field in str(caught.value)


@pytest.mark.parametrize("field", ["format", "voice", "reference_id", "latency"])
def test_no_error_repeats_a_long_value(field: str) -> None:
    talk = Talk()
    talk.start(**{field: "x" * 100_000})
    assert sum(len(str(reply)) for reply in talk.replies) < 1_000


@pytest.mark.parametrize("bits", [0, 8, 15_999, 128_001, 513])
def test_a_bit_rate_out_of_range_is_refused(bits: int) -> None:
    with pytest.raises(BadRequest, match="between 16000 and 128000"):
        parse_request({"format": "opus", "opus_bitrate": bits})


@pytest.mark.parametrize("rate", [24_000, 16_000])
def test_opus_runs_at_one_rate(rate: int) -> None:
    with pytest.raises(BadRequest, match="48000"):
        parse_request({"format": "opus", "sample_rate": rate})


@pytest.mark.parametrize("data", [5, "text", [1], b"x", {1: 2}])
def test_a_request_that_is_no_map_is_refused(data: Any) -> None:
    with pytest.raises(BadRequest, match="request"):
        parse_request(data)
