"""The codec: whole equals chunked, no trace across slots, strict loading, and clips of every kind."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.api import BadReference
from engine.codec.audio_file import decode_clip
from engine.codec.codec import Codec, CodecModel, to_int16
from engine.codec.config import CodecConfig
from engine.codec.weights import fuse_weight_norm, load_codec_weights
from engine.config import ConfigError
from engine.weights import WeightsError

RATE_HZ = 24_000


@pytest.fixture(scope="module")
def codec(tiny: Path) -> Codec:
    return Codec.load(tiny)


def some_codes(codec: Codec, frames: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(0, n, (frames,), generator=generator) for n in codec.config.codebook_sizes])


# Chunking changes the shapes of matrix products, and so the order of their fp32 sums.
CHUNK_TOLERANCE = 2e-5


@settings(max_examples=20)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=6), st.integers(0, 3))
def test_chunked_equals_whole(tiny: Path, chunks: list[int], seed: int) -> None:
    codec = Codec.load(tiny)
    codes = some_codes(codec, sum(chunks), seed)
    state = codec.new_state(2)
    whole = codec.decode(state, 0, codes)
    parts = [codec.decode(state, 1, part) for part in codes.split(chunks, dim=1)]
    assert len(whole) == codec.config.hop_samples * codes.shape[1]
    assert float((torch.cat(parts) - whole).abs().max()) < CHUNK_TOLERANCE


def test_a_later_frame_never_changes_earlier_samples(codec: Codec) -> None:
    codes = some_codes(codec, 6)
    changed = codes.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 32
    state = codec.new_state(2)
    a, b = codec.decode(state, 0, codes), codec.decode(state, 1, changed)
    cut = 4 * codec.config.hop_samples
    assert torch.equal(a[:cut], b[:cut])
    assert not torch.equal(a[cut:], b[cut:])


def test_a_reset_slot_equals_a_fresh_one_bit_for_bit_and_its_neighbour_goes_on(codec: Codec) -> None:
    codes, other = some_codes(codec, 5), some_codes(codec, 5, seed=9)
    state, fresh = codec.new_state(2), codec.new_state(2)
    codec.decode(state, 0, other)
    codec.decode(state, 1, other)
    codec.decode(fresh, 1, other)
    state.reset(0)
    assert torch.equal(codec.decode(state, 0, codes), codec.decode(fresh, 0, codes))
    assert torch.equal(codec.decode(state, 1, codes), codec.decode(fresh, 1, codes))


def test_encode_counts_frames_by_rounding_up(codec: Codec) -> None:
    hop = codec.config.hop_samples
    for samples, frames in ((1, 1), (hop, 1), (hop + 1, 2), (3 * hop, 3)):
        codes = codec.encode(np.zeros(samples, np.float32))
        assert codes.shape == (codec.config.n_codebooks, frames)
        assert codes.dtype == np.int16


def test_full_scale_is_clipped_not_wrapped() -> None:
    assert to_int16(torch.tensor([1.0, -1.0, 1.5, -1.5, 0.0])).tolist() == [32767, -32767, 32767, -32768, 0]


def test_the_s2_codec_has_455_fused_tensors() -> None:
    with torch.device("meta"):
        names = CodecModel(CodecConfig.s2()).state_dict().keys()
    counts = [sum(name.startswith(part) for name in names) for part in ("encoder.", "decoder.", "quantizer.")]
    assert counts == [126, 89, 240]


def test_both_spellings_of_weight_norm_fuse_and_stale_buffers_are_skipped(tmp_path: Path) -> None:
    v, g = torch.randn(4, 3, 5), torch.rand(4, 1, 1)
    expected = g * v / v.reshape(4, -1).norm(dim=1).view(4, 1, 1)
    new = fuse_weight_norm({"a.parametrizations.weight.original0": g, "a.parametrizations.weight.original1": v})
    old = fuse_weight_norm({"a.weight_g": g, "a.weight_v": v})
    assert torch.allclose(new["a.weight"], expected)
    assert torch.equal(new["a.weight"], old["a.weight"])
    with pytest.raises(WeightsError, match="weight_v"):
        fuse_weight_norm({"a.weight_g": g})

    stale = {"quantizer.pre_module.freqs_cis": torch.zeros(2), "encoder.block.4.block.5.causal_mask": torch.zeros(2)}
    state = {f"generator.{n}": t for n, t in ({"a.weight_g": g, "a.weight_v": v} | stale).items()}
    torch.save({"state_dict": state}, tmp_path / "codec.pth")
    loaded = load_codec_weights(tmp_path, {"a.weight": (4, 3, 5)})
    assert torch.equal(loaded["a.weight"], old["a.weight"])


def test_a_codec_that_does_not_fit_its_config_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="neither"):
        load_codec_weights(tmp_path, {})
    (tmp_path / "codec.json").write_text((tiny / "codec.json").read_text().replace("[5, 2, 2, 2]", "[5, 2, 2, 4]"))
    with pytest.raises(ConfigError, match="decoder_rates"):
        Codec.load(tmp_path)


# ---- clips -------------------------------------------------------------------------------------------


def clip(seconds: float, rate_hz: int = RATE_HZ, channels: int = 1, container: str = "WAV", **options: str) -> bytes:
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    tone = 0.4 * np.sin(2 * np.pi * 440 * t)
    out = io.BytesIO()
    soundfile.write(out, np.stack([tone] * channels, axis=1), rate_hz, format=container, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        clip(2, 44_100, 2),
        clip(2, 8_000),
        clip(2, 96_000, 1, subtype="FLOAT"),
        clip(2, 22_050, 1, subtype="PCM_24"),
        clip(2, 48_000, 2, "FLAC"),
        clip(2, 48_000, 1, "OGG", subtype="OPUS"),
        clip(2, 44_100, 1, "OGG"),
        clip(2, 44_100, 1, "MP3"),
    ],
    ids=["stereo", "8k", "float96k", "24bit", "flac", "opus", "vorbis", "mp3"],
)
def test_any_common_clip_becomes_mono_at_the_codecs_rate(data: bytes) -> None:
    mono = decode_clip(data, RATE_HZ)
    assert mono.dtype == np.float32
    assert abs(len(mono) - 2 * RATE_HZ) < 0.06 * RATE_HZ
    spectrum = np.abs(np.fft.rfft(mono[: 2 * RATE_HZ]))
    assert abs(np.argmax(spectrum) * RATE_HZ / min(len(mono), 2 * RATE_HZ) - 440) < 2


def test_inverted_stereo_does_not_cancel() -> None:
    t = np.arange(2 * RATE_HZ) / RATE_HZ
    tone = 0.4 * np.sin(2 * np.pi * 440 * t)
    out = io.BytesIO()
    soundfile.write(out, np.stack([tone, -tone], axis=1), RATE_HZ, format="WAV")
    assert float(np.abs(decode_clip(out.getvalue(), RATE_HZ)).max()) > 0.3


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"hello, I am a text file and no sound at all", "not readable"),
        (clip(2)[:30], "not readable"),
        (clip(0.4), "at least 1 s"),
        (clip(31, 8_000), "longer than 30 s"),
        (b"/etc/hostname", "not readable"),
        (clip(5, 384_000, 8, "FLAC"), "more than 11520000 samples"),
    ],
    ids=["empty", "text", "truncated", "short", "long", "path", "wide"],
)
def test_a_clip_that_cannot_be_used_says_why(data: bytes, says: str) -> None:
    with pytest.raises(BadReference, match=says):
        decode_clip(data, RATE_HZ)
