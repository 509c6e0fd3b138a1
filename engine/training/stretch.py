"""A stretch of training on a machine that is lent for minutes: nothing that was gained may be lost.

A stretch may take several commands on one machine. Its whole state stays there, in a folder `keep`; what must come home
goes to a folder `out` once a minute, as a tar in small parts, each minute's in place of the last.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.codec.codec import CodecModel
from engine.codec.config import CodecConfig
from engine.training.checkpoint import save_whole
from engine.training.clips import SpokenClip
from engine.training.corpus import CorpusLine
from engine.training.speech import Speech
from engine.training.whole_clips import WholeClips

__all__ = ["bring_home", "codec_samples", "kept_speech", "train_in_slices"]

SLICE_S = 60.0
PART_BYTES = 15 * 1024 * 1024
SAMPLES = 24


def train_in_slices(
    train: Callable[[float], dict[str, Any]],
    leave: Callable[[dict[str, Any]], None],
    *,
    seconds_done: float,
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Until the stretch is over or the clock passes `deadline`.

    `train` goes on to so many seconds of the stretch and gives the facts; `leave` writes down what there is, after each
    slice. If it cannot, that is told and training goes on.
    """
    until_s = seconds_done
    while True:
        until_s += max(0.0, min(SLICE_S, deadline - clock()))
        facts = train(until_s)
        try:
            leave(facts)
            print(f"kept what {facts['seconds']:.0f} s of training gave", flush=True)
        except OSError as error:
            print(f"nothing was written down: {error!r}", flush=True)
        if facts["seconds"] < until_s or clock() >= deadline:
            return facts


def bring_home(folder: Path, out: Path) -> None:
    """The folder as `stretch.tar.N`, to be joined and unpacked. Old parts go only when all new ones are there."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        archive.add(folder, arcname=".")
    parts = [whole.getvalue()[at : at + PART_BYTES] for at in range(0, len(whole.getvalue()), PART_BYTES)]
    out.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        (out / f"next.{number}").write_bytes(part)
    for old in out.glob("stretch.tar.*"):
        old.unlink()
    for number in range(len(parts)):
        (out / f"next.{number}").rename(out / f"stretch.tar.{number}")


def kept_speech(file: Path, make: Callable[[], Speech]) -> Speech:
    """What an earlier command of this stretch had the teacher say, or what it says now."""
    if file.exists():
        return Speech(**torch.load(file, weights_only=True))
    speech = make()
    save_whole({field.name: getattr(speech, field.name) for field in fields(speech)}, file)
    return speech


@torch.inference_mode()
def codec_samples(model: CodecModel, config: CodecConfig, speech: Speech, corpus: list[CorpusLine], file: Path) -> None:
    """A few clips and what the codec makes of them, as int16, for the recognisers at home: `evaluate --samples`."""
    device = next(model.parameters()).device
    context = WholeClips.of(model).begin(1, device)
    arrays: dict[str, np.ndarray] = {"rate": np.asarray(config.sample_rate)}
    for clip in np.linspace(0, len(speech.lines) - 1, min(SAMPLES, len(speech.lines))).astype(int):
        first, line = int(speech.starts[clip]), corpus[speech.lines[clip]]
        wave = speech.samples[first : first + int(speech.lengths[clip])]
        codes = model.encode(wave.to(device).float()[None] / 32767, context)
        made = (model.decode(codes, context)[0].float().clamp(-1, 1) * 32767).to(torch.int16)
        name = SpokenClip(f"codec-{clip}", "codec", line.text, line.voice, 0)
        arrays |= {f"original/{name.key}": wave.cpu().numpy(), f"codec/{name.key}": made.cpu().numpy()}
        arrays[f"clip/{name.key}"] = np.asarray([name.spoken, name.voice])
    np.savez_compressed(file, **arrays)
