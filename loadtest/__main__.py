"""`python -m loadtest`, or `kingfisher loadtest` where this folder is at hand."""

from __future__ import annotations

import argparse

from loadtest.command import add_arguments, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest")
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
