"""The log of a job's events: one JSON line each, appended by every process to `RUN_DIR/events.jsonl`."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from riprap.codec.files import write_all
from riprap.codec.json_text import to_json
from riprap.codec.trust.paths import open_to_append

BYTES_MAX = 1 << 25


def old_of(path: str | os.PathLike[str]) -> str:
    """The path under which a log is kept until the next one is full too."""
    return f"{os.fspath(path)}.old"


def events_in(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The events logged so far, as far as they are kept; a line that is still being written is left out."""
    with ExitStack() as opened:
        # The newer one first: a log that is begun anew between the two is the older one then, and not missed.
        files = [opened.enter_context(open(fd, errors="replace")) for fd in _opened(path, old_of(path))]
        for file in reversed(files):
            yield from _whole_lines(file.read())


def _opened(*paths: str | os.PathLike[str]) -> list[int]:
    """Descriptors of the files that are there, of each one."""
    found: list[int] = []
    for path in paths:
        with suppress(FileNotFoundError):
            found.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    if len(found) > 1 and os.path.samestat(*map(os.fstat, found)):
        os.close(found.pop())
    return found


def _is_torn(path: str | os.PathLike[str]) -> bool:
    """True of a file whose last line was not written whole."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        return size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
    return False


def _whole_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # it is being written, or its writer was killed
        if isinstance(event, dict):
            yield event


class EventLog:
    """Appends events; safe to share one file between processes, for each line is a single O_APPEND write.

    A log larger than BYTES_MAX becomes `NAME.old`, in place of the one before, and begins anew; a process
    that has not noticed yet writes to the old one.

    The folder of `path` is made when it is not there. Raises OSError when the file cannot be opened, or is another's.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._fd = open_to_append(path)
        self._torn = _is_torn(path)  # the last line was not written whole: the next begins on one of its own

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with `monotonic` (time.monotonic(), seconds), `wall` (Unix seconds) and `pid`.

        Fields win over these three, so that an event may be logged with the time at which it was seen. OSError, with
        the file's name, when there is no room; a later event is readable all the same.
        """
        line = {"event": event, "monotonic": time.monotonic(), "wall": time.time(), "pid": os.getpid(), **fields}
        self._rotate()
        text = ("\n" if self._torn else "") + to_json(line) + "\n"
        self._torn = True
        write_all(self._fd, text.encode(), self._path)
        self._torn = False

    def _rotate(self) -> None:
        """Follow a log that another process has begun anew, or begin it anew."""
        mine = os.fstat(self._fd)
        if mine.st_size <= BYTES_MAX:
            return
        fcntl.flock(self._fd, fcntl.LOCK_EX)  # one of those that find it too large renames it
        with suppress(FileNotFoundError):
            if os.path.samestat(mine, os.stat(self._path)):
                os.replace(self._path, old_of(self._path))
        os.close(self._fd)
        self._fd, self._torn = open_to_append(self._path), False

    def sync(self) -> None:
        """Force all that was written to disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; nothing may be written afterwards."""
        os.close(self._fd)
