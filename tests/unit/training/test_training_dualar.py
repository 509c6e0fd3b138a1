"""Training the AR model on a tiny corpus: losses fall, resuming changes nothing, exports are served."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.api import Epoch, Prefill, SlotId, SlotRef, StepPlan, Vocode
from engine.config import ModelConfig
from engine.load import load_engine
from engine.tokenizer import Tokenizer
from engine.training.corpus import CorpusLine
from engine.training.dualar import DualArStretch, DualArTrainer, stack, train_dualar
from engine.training.export import export_model
from engine.training.rows import RowMaker
from engine.training.spoken_codes import SpokenCodes
from engine.weights import WeightsError
from tests.tiny_model import CODEBOOKS, RESIDUAL_CODES, write_tiny_model

CPU = torch.device("cpu")
TEXT = "An owl sat still."
WORDS = [(0, 2), (3, 3), (7, 3), (11, 5)]
"""13 phonemes; with the silent ends 15 tokens, of which each gets 4 steps of 25 ms."""
FRAME_S = 0.1
MANIFEST = {"sources": [], "voices": {}, "lines_of": {"blends": 0}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def rows(folder: Path) -> RowMaker:
    chance = np.random.default_rng(5)
    frames = [15] * 6
    codes = SpokenCodes(
        codes=chance.integers(0, RESIDUAL_CODES, (CODEBOOKS, sum(frames))).astype(np.int16),
        starts=np.cumsum([0, *frames[:-1]]),
        lengths=np.asarray(frames),
        lines=np.arange(6) % 2,
        durations=[np.full(15, 4)] * 6,
    )
    corpus = [CorpusLine(TEXT, "", WORDS, voice, "", 1.0) for voice in ("willow", "oak")]
    options = {"row_tokens": 200, "frame_s": FRAME_S, "default_voice": "willow", "seed": 3}
    return RowMaker(Tokenizer(folder), corpus, codes, **options)


def trainer(folder: Path, *, steps: int, dropout: float = 0.1) -> DualArTrainer:
    stretch = DualArStretch(0, batch=2, steps=steps, dropout=dropout, matrix_rate=0.02, other_rate=1e-2)
    return DualArTrainer(ModelConfig.read(folder), Tokenizer(folder), stretch, CPU)


def test_each_frame_points_at_the_word_that_it_speaks(rows: RowMaker, folder: Path) -> None:
    row = rows.make()
    tokenizer = Tokenizer(folder)
    spoken = {tokenizer.encode(TEXT[a:b])[0] for a, b in ((0, 3), (3, 7), (7, 11), (11, 17))}
    known = row.spans[row.spans[:, 1] > 0]
    assert len(known)
    first_ids = {int(row.columns[0, start]) for start, _ in known}
    assert first_ids == spoken
    for start, end in known:
        assert 3 <= end - start <= 6


def test_spans_are_whole_words_in_text_of_more_than_ascii(folder: Path) -> None:
    """A letter with an accent is two tokens. The third turn of a row is as exact as the first."""
    text, words = "¿Qué año será?", [(0, 3), (5, 3), (9, 4)]
    line = CorpusLine(text, "", words, "jara", "", 1.0)
    codes = SpokenCodes(
        codes=np.zeros((CODEBOOKS, 36), np.int16),
        starts=np.asarray([0, 12, 24]),
        lengths=np.asarray([12, 12, 12]),
        lines=np.asarray([0, 0, 0]),
        durations=[np.full(12, 4)] * 3,
    )
    tokenizer = Tokenizer(folder)
    maker = RowMaker(tokenizer, [line], codes, row_tokens=400, frame_s=FRAME_S, default_voice="willow", seed=3)
    row = maker.make()
    spans = {(int(a), int(b)) for a, b in row.spans if b > a}
    said = {tuple(row.columns[0, a:b].tolist()) for a, b in spans}
    assert said == {tuple(tokenizer.encode(word)) for word in ("¿Qué ", "año ", "será?")}
    assert len(spans) == 3 * len(said)


def test_a_row_fits_and_ends_speech_with_the_end_token(rows: RowMaker, folder: Path) -> None:
    tokenizer = Tokenizer(folder)
    for _ in range(20):
        columns = rows.make().columns
        assert columns.shape[1] <= 200
        assert columns[0, -1] == tokenizer.im_end


def test_losses_fall(folder: Path, rows: RowMaker) -> None:
    made = trainer(folder, steps=60, dropout=0.0)
    columns, spans = stack(rows, 2, made.tokenizer.special("<|pad|>"), CPU)
    first = {name: loss.item() for name, loss in made.step(columns, spans).items()}
    for _ in range(40):
        last = made.step(columns, spans)
    for name, loss in last.items():
        assert loss.item() < 0.8 * first[name], name


def test_padding_and_batch_mates_change_no_loss(folder: Path, rows: RowMaker) -> None:
    made = trainer(folder, steps=1)
    made.model.eval()
    columns, spans = stack(rows, 1, made.tokenizer.special("<|pad|>"), CPU)
    padded = torch.nn.functional.pad(columns, (0, 30))
    padded[:, 0, -30:] = made.tokenizer.special("<|pad|>")
    alone = made.losses(columns, spans)
    longer = made.losses(padded, torch.nn.functional.pad(spans, (0, 0, 0, 30)))
    for name in alone:
        assert alone[name].item() == pytest.approx(longer[name].item(), rel=1e-4)


def test_a_resumed_stretch_equals_an_uninterrupted_one(folder: Path, rows: RowMaker, tmp_path: Path) -> None:
    begin = rows.state
    whole = trainer(folder, steps=6)
    train_dualar(whole, rows)
    rows.state = begin
    half = trainer(folder, steps=6)
    train_dualar(half, rows, until_step=3)
    half.pause(tmp_path / "state.pt", rows)
    rows.make()  # what happens in between is forgotten
    rest = trainer(folder, steps=6)
    rest.resume(tmp_path / "state.pt", rows)
    train_dualar(rest, rows)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, rest.model.state_dict()[name]), name
    for name, value in whole.mean.values.items():
        assert torch.equal(value, rest.mean.values[name]), name


def test_an_exported_model_streams_what_it_decodes_offline(folder: Path, rows: RowMaker, tmp_path: Path) -> None:
    made = trainer(folder, steps=2)
    made.save(tmp_path / "checkpoint", train_dualar(made, rows))
    out = tmp_path / "exported"
    export_model(folder, out, model=tmp_path / "checkpoint", codec=None, manifest=MANIFEST)
    assert "| dropout | 0.1 |" in (out / "README.md").read_text()
    engine = load_engine(out, backend="reference", slots=1)
    ref = SlotRef(SlotId(0), Epoch(1))

    def speak(packets: list[int]) -> np.ndarray:
        voice = next(iter(engine.voices.values()))
        engine.prefill(Prefill(ref.slot, ref.epoch, voice, TEXT, max_frames=40))
        pcm = []
        frame = 0
        for step, size in enumerate(packets):
            plans = [StepPlan(step, (ref,)) for _ in range(size - 1)]
            plans.append(StepPlan(step, (ref,), (Vocode(ref.slot, ref.epoch, frame, size, frame == 0),)))
            results = [engine.collect(engine.submit(plan)) for plan in plans]
            if any(decoded.ended for result in results for decoded in result.decoded):
                break
            pcm.append(results[-1].audio[0].pcm)
            frame += size
        return np.concatenate(pcm)

    streamed, offline = speak([1] * 6), speak([6])
    engine.close()
    assert np.abs(streamed.astype(int) - offline).max() <= 1


def test_a_checkpoint_of_another_size_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "facts.json").write_text(json.dumps({}))
    with pytest.raises(WeightsError, match="missing"):
        export_model(folder, tmp_path / "out", model=tmp_path / "checkpoint", codec=None, manifest=MANIFEST)
