"""The command line, and the place where the parts are put together: `kingfisher serve | say | voices | …`."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.api import Engine
from engine.null import NullEngine
from realtime.audio.opus import prepare_opus
from realtime.config import CHOICES, ServerConfig, SettingError
from realtime.server.descriptors import fill_standard_descriptors

__all__ = ["load_engine_for", "main"]


def load_engine_for(config: ServerConfig) -> Engine:
    """The engine a configuration asks for, warm. Raises what loading raises (ConfigError, WeightsError, …)."""
    if config.model == "null":
        return NullEngine(slots=config.slots)
    from engine.load import (
        BUNDLED_VOICE,
        load_engine,
        load_random_engine,
    )  # torch is heavy: only when a model is wanted

    context_tokens = config.context_tokens or None
    if config.model == "s2-pro-random":
        engine = load_random_engine(
            precision=config.precision, kv_cache=config.kv_cache, slots=config.slots, context_tokens=context_tokens
        )
    else:
        engine = load_engine(
            BUNDLED_VOICE if config.model == "bundled" else Path(config.model),
            device=config.device,
            backend=config.backend,
            precision=config.precision,
            kv_cache=config.kv_cache,
            slots=config.slots,
            context_tokens=context_tokens,
        )
    engine.warm_up()
    return engine


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kingfisher", description="A realtime speech server for voice agents.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_serve(commands.add_parser("serve", help="run the server"))
    _add_bench(commands.add_parser("bench", help="time the engine alone, without the server"))
    _add_model_options(commands.add_parser("voices", help="list the voices of a model"))

    from kingfisher_client import say

    from engine import convert_command as convert
    from engine.gate import command as gate

    gate.add_arguments(
        commands.add_parser("gate", help="check a model's numbers or a GPU's speed against what they were")
    )
    convert.add_arguments(commands.add_parser("convert", help="write a checkpoint's FP8 form"))
    say.add_arguments(commands.add_parser("say", help="speak through a running server"))
    loadtest = _loadtest()
    if loadtest is not None:
        loadtest.add_arguments(
            commands.add_parser("loadtest", help="time to first audio and stalls of a running server")
        )
    options = parser.parse_args(arguments)
    if options.command == "loadtest" and loadtest is not None:
        return int(loadtest.run(options))
    if options.command == "say":
        return say.run(options)
    if options.command == "gate":
        return gate.run(options)
    if options.command == "convert":
        return convert.run(options)
    try:
        config = ServerConfig.read(vars(options))
    except SettingError as error:
        parser.error(str(error))
    return {"serve": _serve, "bench": _bench, "voices": _voices}[options.command](config, options)


def _loadtest() -> Any:
    """The load test is a folder of the repository, not of the package: None where it is not at hand."""
    if importlib.util.find_spec("loadtest") is None:
        return None
    from loadtest import command

    return command


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="bundled, null (tones), s2-pro-random, or a checkpoint folder")
    parser.add_argument("--device", choices=CHOICES["device"])
    parser.add_argument("--backend", choices=CHOICES["backend"], help="on the CPU")
    parser.add_argument("--precision", choices=CHOICES["precision"], help="on a GPU")
    parser.add_argument("--kv-cache", choices=CHOICES["kv_cache"], help="keys and values, on a GPU")
    parser.add_argument("--slots", type=int, help="sessions that can hold prefilled state at once")
    parser.add_argument(
        "--context-tokens", type=int, help="KV positions of a slot (default: the model's maximum, 2048 on a GPU)"
    )


def _add_serve(parser: argparse.ArgumentParser) -> None:
    _add_model_options(parser)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--max-sessions", type=int)
    parser.add_argument("--voices-dir", help="where uploaded voices are kept")
    parser.add_argument("--workers", type=int, help="encoder processes")
    parser.add_argument("--queue-s", type=float, help="how long a session with text may wait for a slot")
    parser.add_argument("--quiet-dbfs", type=float, help="peak level under which sound is silence (default: -56)")
    parser.add_argument("--drain-s", type=float, help="how long streams may go on after SIGTERM")
    parser.add_argument("--idle-s", type=float, help="close sockets without a stream after this time")
    parser.add_argument("--stall-s", type=float, help="drop clients that take no data for this time")
    parser.add_argument("--api-keys-file", help="one accepted key per line")
    parser.add_argument("--tls-cert", help="PEM file of a certificate: serve https and wss")
    parser.add_argument("--tls-key", help="PEM file of its key")
    parser.add_argument("--key-sessions", type=int, help="sessions that one key may have open (default: no limit)")
    parser.add_argument("--key-sessions-per-minute", type=int, help="sessions that one key may open in a minute")
    parser.add_argument("--log-level", choices=CHOICES["log_level"])


def _add_bench(parser: argparse.ArgumentParser) -> None:
    _add_model_options(parser)
    parser.add_argument("-c", "--concurrency", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--utterances", type=int, default=8, help="utterances per level")


def _serve(config: ServerConfig, _: argparse.Namespace) -> int:
    fill_standard_descriptors()
    from realtime.server.lifecycle import serve

    logging.basicConfig(
        level=config.log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr
    )

    def load() -> Engine:
        prepare_opus()
        return load_engine_for(config)

    return serve(config, load)


def _voices(config: ServerConfig, options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    engine = load_engine_for(config)
    table = Table("voice", "reference", "transcript")
    for voice in engine.voices.values():
        table.add_row(voice.name, f"{voice.codes.shape[1] * engine.limits.frame_s:.1f} s", voice.transcript)
    Console().print(table)
    engine.close()
    return 0


def _bench(config: ServerConfig, options: argparse.Namespace) -> int:
    from engine.bench import run_bench

    engine = load_engine_for(config)
    run_bench(engine, options.concurrency, options.utterances)
    engine.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
