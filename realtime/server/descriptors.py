"""Standard input, output and error, where whoever started the server closed them.

The system gives out the lowest free number: the listening socket would get one of theirs, and a library that prints
would write into it.
"""

from __future__ import annotations

import os
import sys

__all__ = ["fill_standard_descriptors"]


def fill_standard_descriptors() -> None:
    """Those that are closed become /dev/null, for this process and its children. Call it before anything is opened."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == number, "the lowest free number is given out"
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for good
