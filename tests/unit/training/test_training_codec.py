"""Training the codec on a pulsed tone: losses fall, resuming changes nothing, a frozen half stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.codec.codec import Codec, CodecModel
from engine.codec.config import CodecConfig
from engine.training import fresh_codec
from engine.training.codec import DECODER, CodecStretch, CodecTrainer, batches, train_codec
from engine.training.codec_losses import feature_distance, spectra
from engine.training.fresh_codec import draw_weights
from engine.training.speech import LABEL_SAMPLES, Speech
from engine.training.spoken_codes import encode_speech
from engine.training.whole_clips import WholeClips, quantize
from tests.tiny_model import CODEC, write_tiny_model

SMALL = Path(fresh_codec.__file__).parent / "small"
HOP = 2 * LABEL_SAMPLES
FRAMES = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, with the bundled codec's rate and hop."""
    codec = {**CODEC, "sample_rate": 24_000, "encoder_rates": [4, 4, 4, 5], "decoder_rates": [5, 4, 4, 4]}
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), codec=codec)


@pytest.fixture(scope="module")
def speech() -> Speech:
    t = torch.arange(FRAMES * HOP)
    wave = 0.3 * torch.sin(t * 0.2) * (t // 4000 % 2)
    labels = (t[::LABEL_SAMPLES] // 4000 % 2).to(torch.uint8)
    starts, lengths = torch.tensor([0, 20 * HOP]), torch.tensor([20 * HOP, 40 * HOP])
    return Speech((wave * 32767).to(torch.int16), labels, starts, lengths, [0, 1], [[4, 4], [4, 4, 4]])


def trainer(folder: Path, *, steps: int, **options: Any) -> CodecTrainer:
    stretch = CodecStretch(0, batch=2, frames=4, learning_rate=1e-3, steps=steps, **options)
    made = CodecTrainer(CodecConfig.read(folder), stretch, torch.device("cpu"))
    made.start_from(Codec.load(folder).state_dict())
    return made


def test_losses_fall(folder: Path, speech: Speech) -> None:
    made = trainer(folder, steps=100)
    wave, labels = next(batches(speech, made.stretch, made.random))
    first = made.step(wave, labels, with_critics=False)
    for _ in range(30):
        last = made.step(wave, labels, with_critics=False)
    for name in ("mel", "phonemes"):
        assert last[name].item() < 0.9 * first[name].item(), name


def test_convolutions_are_tried_while_it_trains_and_only_then(folder: Path, speech: Speech) -> None:
    """Elsewhere each clip is a new shape, and all would be tried anew."""
    seen = []

    def clock() -> float:
        seen.append(torch.backends.cudnn.benchmark)
        return 0.0

    train_codec(trainer(folder, steps=1), speech, until_step=0, clock=clock)
    assert seen == [True]
    assert not torch.backends.cudnn.benchmark


def test_a_resumed_stretch_equals_an_uninterrupted_one(folder: Path, speech: Speech, tmp_path: Path) -> None:
    """With discriminators from the middle on."""
    whole = trainer(folder, steps=4, discriminators_from=0.5)
    train_codec(whole, speech)
    half = trainer(folder, steps=4, discriminators_from=0.5)
    train_codec(half, speech, until_step=3)
    half.pause(tmp_path / "state.pt")
    rest = trainer(folder, steps=4, discriminators_from=0.5, seed=9)
    rest.resume(tmp_path / "state.pt")
    train_codec(rest, speech)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, rest.model.state_dict()[name]), name
    for name, value in whole.critics.state_dict().items():
        assert torch.equal(value, rest.critics.state_dict()[name]), name


def test_training_the_decoder_alone_leaves_every_code_as_it_was(folder: Path, speech: Speech) -> None:
    made = trainer(folder, steps=2, discriminators_from=0.0, decoder_only=True)
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    train_codec(made, speech)
    changed = {name for name, value in made.model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith(DECODER) for name in changed)
    averaged = {name for name, value in made.mean.values.items() if not torch.allclose(value, before[name], atol=1e-7)}
    assert all(name.startswith(DECODER) for name in averaged)


def test_a_checkpoint_brings_the_mean_weights_home(folder: Path, speech: Speech, tmp_path: Path) -> None:
    made = trainer(folder, steps=2)
    made.save(tmp_path, train_codec(made, speech))
    again = trainer(folder, steps=2, seed=5)
    again.load(tmp_path)
    for name, value in made.mean.values.items():
        assert torch.equal(value.half().float(), again.model.state_dict()[name]), name


def test_clips_encode_in_batches_as_the_engine_encodes_them_alone(folder: Path, speech: Speech) -> None:
    codec = Codec.load(folder)
    model = CodecModel(codec.config).eval()
    model.load_state_dict(codec.state_dict())
    codes = encode_speech(model, codec.config, speech)
    for clip in range(2):
        start, length = int(speech.starts[clip]), int(speech.lengths[clip])
        alone = codec.encode(speech.samples[start : start + length].float().numpy() / 32767)
        assert np.array_equal(codes.clip(clip), alone)
    assert [steps.tolist() for steps in codes.durations] == [[4, 4], [4, 4, 4]]


@pytest.mark.parametrize("window", [2048, 512, 128])
def test_spectra_and_their_gradients_are_those_of_torch(window: int) -> None:
    x = torch.randn(2, 4 * 512, generator=torch.Generator().manual_seed(1), requires_grad=True)
    hann = torch.hann_window(window)
    theirs = torch.stft(x, window, window // 4, window=hann, return_complex=True, pad_mode="constant").transpose(1, 2)
    mine = spectra(x, window)
    torch.testing.assert_close(mine, theirs)
    (wanted,) = torch.autograd.grad(theirs.abs().square().sum(), x)
    (found,) = torch.autograd.grad(mine.abs().square().sum(), x)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 4e-3)])
def test_the_distance_of_features_is_their_mean_difference_in_units_of_the_real_ones(
    dtype: torch.dtype, tolerance: float
) -> None:
    chance = torch.Generator().manual_seed(2)
    made, real = (
        [(torch.randn(2, 4, 9, 30, generator=chance) * size).to(dtype) for size in (1.0, 3.0, 1.0)] for _ in "ab"
    )
    made = [feature.requires_grad_() for feature in made]
    wide = [(a.float(), b.float()) for a, b in zip(made[:-1], real[:-1], strict=True)]  # the last is a verdict
    wanted = sum((a - b).abs().mean() / b.abs().mean() for a, b in wide) / len(wide)
    found = feature_distance([made], [real])
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=0)
    for mine, theirs in zip(*(torch.autograd.grad(d, made[:-1]) for d in (found, wanted)), strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine, theirs, rtol=2 * tolerance, atol=0)


def test_silent_features_have_a_finite_distance() -> None:
    made, silent = [[torch.full((1, 1, 4), x), torch.zeros(1)] for x in (0.5, 0.0)]
    assert feature_distance([made], [silent]).item() == pytest.approx(0.5 / 1e-3)


def test_the_first_weights_keep_signals_at_their_size() -> None:
    """Where they sink, codebooks collapse."""
    torch.manual_seed(4)
    config = CodecConfig.read(SMALL)
    model = CodecModel(config)
    draw_weights(model)
    wave = 0.06 * torch.randn(2, 16 * HOP)
    context = WholeClips.of(model).begin(2, torch.device("cpu"))
    with torch.no_grad():
        latent = model.encoder(wave[:, None], context)
        bottleneck = quantize(model.quantizer, latent, context)
        made = model.decode(bottleneck.codes, context)
    assert 0.3 < latent.std() < 3
    assert 0.01 < made.std() < 0.5
    for stage in range(config.n_codebooks):
        assert len(bottleneck.codes[:, stage].unique()) > 16, "32 frames of noise are nearly as many different ones"
