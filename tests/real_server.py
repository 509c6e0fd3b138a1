"""The real server in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["real_server"]

ROOT = Path(__file__).parent.parent
START_LIMIT_S = 60.0


@contextmanager
def real_server(*arguments: str, model: str = "null") -> Iterator[str]:
    """`kingfisher serve` with these arguments; yields its address, http://127.0.0.1:PORT."""
    code = "import sys; from realtime.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", "--model", model, "--port", "0", "--drain-s", "1", *arguments]
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'clients/python'}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        assert process.stderr is not None
        killer = threading.Timer(START_LIMIT_S, process.kill)  # a start that hangs ends in a failure, not in a hang
        killer.start()
        log: list[str] = []
        address = None
        for line in process.stderr:
            log.append(line)
            if found := re.search(r"demo page\s+(http://\S+?)/?$", line.strip()):
                address = found.group(1)
                break
        killer.cancel()
        assert address is not None, "the server did not start:\n" + "".join(log)
        # From here on nobody needs the log, but it must be read, or the server blocks on a full pipe.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield address
        finally:
            process.terminate()
            process.wait(timeout=30)
