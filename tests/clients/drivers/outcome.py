"""What a driver found, for the test that started it: sound in files, the rest as one line of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

__all__ = ["LONG", "TEXTS", "Outcome"]

TEXTS = ["Thank you for calling. How can I help you today?", "Your order has been shipped and will arrive on Friday."]
LONG = "This sentence is one of many that nobody is going to hear to its end. " * 12


class Outcome:
    """Of one driver: `python driver.py URL FOLDER`."""

    def __init__(self) -> None:
        self.url, self.folder = sys.argv[1], Path(sys.argv[2])
        self._found: dict[str, object] = {"turns": []}

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws", 1)

    def turn(self, data: bytes, ending: str) -> None:
        """The sound of the next of TEXTS; `ending` is "wav", "mp3", "ogg", or "pcm24000" for raw s16le at that rate."""
        turns = self._found["turns"]
        assert isinstance(turns, list)
        path = self.folder / f"turn{len(turns)}.{ending}"
        path.write_bytes(data)
        turns.append(str(path))

    def note(self, **found: object) -> None:
        self._found |= found

    def tell(self) -> None:
        print(json.dumps(self._found), flush=True)
