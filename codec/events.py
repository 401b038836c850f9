"""The log of what happened to a job: one JSON line an event, appended by every process to `RUN_DIR/events.jsonl`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class EventLog:
    """Appends events; safe to share one file between processes, for each line is a single O_APPEND write.

    The folder of `path` is made when it is not there. Raises OSError when the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with `monotonic` (time.monotonic(), seconds), `wall` (Unix seconds) and `pid`.

        Fields win over these three, so that an event may be logged with the time at which it was seen.
        """
        line = {"event": event, "monotonic": time.monotonic(), "wall": time.time(), "pid": os.getpid(), **fields}
        os.write(self._fd, (json.dumps(line, default=_plain) + "\n").encode())

    def close(self) -> None:
        """Close the file; nothing may be written afterwards."""
        os.close(self._fd)


def _plain(value: Any) -> Any:
    """A NumPy scalar as its Python number, anything else as text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)
