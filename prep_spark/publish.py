"""Looks at the paths of a job first, and puts its result in its place all at once, or leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from riprap.prep_spark.errors import PrepError, cannot_write


def check_input(source: str, remedy: str) -> None:
    """PrepError when `source` is a path, no glob and no URL, and nothing is there."""
    if not re.search(r"[*?{\[]|^[a-z0-9]+:", source) and not os.path.exists(source):
        raise PrepError(f"{source} does not exist", remedy)


def check_out(out: str) -> None:
    """PrepError unless `out` is free: nothing, or an empty directory."""
    if os.path.isdir(out) and not os.listdir(out):
        return
    if os.path.exists(out):
        raise PrepError(f"{out} already exists", "remove it or name another directory")


@contextmanager
def staging(out: str) -> Iterator[str]:
    """A directory beside `out`, so that publishing is one rename; gone when the job is, unless it was killed."""
    parent, name = os.path.split(os.path.abspath(out))
    try:
        os.makedirs(parent, exist_ok=True)
        directory = tempfile.mkdtemp(prefix=f".{name}.partial-", dir=parent)
    except OSError as error:
        raise cannot_write(parent, error, "name a directory that you may write to") from error
    try:
        os.mkdir(os.path.join(directory, "fragments"))
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def publish(made: str, out: str) -> None:
    """Rename the directory `made` to `out`; PrepError when something is there by now."""
    try:
        os.rename(made, out)  # onto an empty directory or nothing
    except OSError as error:
        raise PrepError(f"cannot put the shards at {out}: {error.strerror}", "remove what is there") from error
