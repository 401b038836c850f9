"""Says how far a job is while Spark is silent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PROGRESS_SECONDS = 2.0


@contextmanager
def progress(fragments: str, columns: int, report: Callable[[str], Any]) -> Iterator[None]:
    """Say how many rows there are, told from the size of the fragments, which grow while Spark is silent."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(PROGRESS_SECONDS):
            if rows := sum(entry.stat().st_size for entry in os.scandir(fragments)) // (8 * columns):
                report(f"  {rows:,} rows parsed")

    watcher = threading.Thread(target=watch, name="prep-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
