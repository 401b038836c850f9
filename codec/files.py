"""Writes a file whole; otherwise an OSError names the file, and the old content stays."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from riprap.codec.errors import RiprapError

FULL = (errno.ENOSPC, errno.EDQUOT)
BLOCK_BYTES = 1 << 16  # enough to find the end of the last whole line

StrPath = str | os.PathLike[str]


def write_all(fd: int, data: bytes | memoryview, path: StrPath, at: int | None = None) -> None:
    """Write all of `data`, at an offset or where the file stands: write(2) may take a part of it.

    OSError, with `path` as its file name, when the rest cannot be written; a part may be in the file then.
    """
    rest = memoryview(data).cast("B")
    while rest:
        try:
            written = os.write(fd, rest) if at is None else os.pwrite(fd, rest, at)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        rest = rest[written:]
        at = None if at is None else at + written


def append_whole(fd: int, data: bytes, path: StrPath) -> None:
    """Append `data` to a file that nobody else writes; after an OSError the file is as it was."""
    size = os.fstat(fd).st_size
    try:
        write_all(fd, data, path)
    except OSError:
        os.ftruncate(fd, size)
        raise


def sync(fd: int, path: StrPath) -> None:
    """Force a file to disk: some file systems say only then that they are full. OSError names the file."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def reserve(fd: int, size: int, path: StrPath) -> None:
    """Make a file `size` bytes long, with room for all of them: a page of a mapped file that finds none on a full disk
    ends the process by a signal. OSError names the file."""
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextmanager
def replacing(path: StrPath) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` in one step when the block ends, on disk by then; after an error nothing
    is left of it. An OSError names `path`."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")  # containers may have each the same pids
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def remove_partial(folder: StrPath) -> None:
    """Remove what `replacing` left in a folder and those in it when its process was killed."""
    for partial in Path(folder).glob("**/.*.part"):
        partial.unlink(missing_ok=True)


def replace(path: StrPath, data: bytes | str) -> None:
    """Make `data` the content of `path`, in one step; OSError, and the old content stays."""
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def cut_torn_line(path: StrPath) -> None:
    """Cut off the bytes behind the last whole line, if there is a file. Nobody else may write it."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        whole = os.fstat(fd).st_size
        while whole and (block := os.pread(fd, min(BLOCK_BYTES, whole), max(0, whole - BLOCK_BYTES))):
            end = block.rfind(b"\n") + 1
            whole -= len(block) - end
            if end:
                break
        os.ftruncate(fd, whole)
    finally:
        os.close(fd)


def bound_log(path: StrPath, bytes_max: int) -> bool:
    """Move the content of a log that is larger than that to `NAME.old`, in place of the former one; True when done.

    Its writers, who append, go on without noticing. A line that is written at that moment may be lost.
    """
    try:
        if os.stat(path).st_size <= bytes_max:
            return False
        shutil.copyfile(path, f"{os.fspath(path)}.old")
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    return True


def no_space(error: BaseException | None) -> RiprapError | None:
    """The message of a full disk, when that is what an error or one of its causes is; else None."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
            return full_disk(path) if path else RiprapError(f"no space left: {error}", "free some space")
        error = error.__cause__
    return None


def full_disk(path: Path) -> RiprapError:
    """The message that there is no room for a file."""
    return RiprapError(f"no space left in {path.parent} ({path.name})", "free some space")


def speaks_of_full_disk(text: str) -> bool:
    """True for the last words of a process that met a full disk, in our code or in Java."""
    return "no space left" in text.lower() or "quota exceeded" in text.lower()
