"""The log of what happened to a job: one JSON line an event, appended by every process to `RUN_DIR/events.jsonl`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from riprap.codec.files import write_all
from riprap.codec.json_text import to_json
from riprap.codec.trust.paths import open_to_append


class EventLog:
    """Appends events; safe to share one file between processes, for each line is a single O_APPEND write.

    The folder of `path` is made when it is not there. Raises OSError when the file cannot be opened, or is another's.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._fd = open_to_append(path)
        self._torn = False  # the last line of ours was not written whole: the next begins on one of its own

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with `monotonic` (time.monotonic(), seconds), `wall` (Unix seconds) and `pid`.

        Fields win over these three, so that an event may be logged with the time at which it was seen. OSError, with
        the file's name, when there is no room; a later event is readable all the same.
        """
        line = {"event": event, "monotonic": time.monotonic(), "wall": time.time(), "pid": os.getpid(), **fields}
        text = ("\n" if self._torn else "") + to_json(line) + "\n"
        self._torn = True
        write_all(self._fd, text.encode(), self._path)
        self._torn = False

    def close(self) -> None:
        """Close the file; nothing may be written afterwards."""
        os.close(self._fd)
