"""Segments as files of a local directory, which one server locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.files import no_space

LOCK = "lock"
SUFFIX = ".segment"
BUFFERS_MAX = 512  # of one writev(2); IOV_MAX is 1024
OPEN_MAX = 8  # segments


class LocalStorage:
    """A directory. Only the newest segments are kept open."""

    appends = True

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)
        self.folder = str(self.directory.absolute())
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if full := no_space(error):
                raise full from error
            raise ConfigError(f"the storage {directory}: {error.strerror}", "name a folder you may write to") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise ConfigError(
                f"the storage {directory} is another backup server's", "give each server a directory of its own"
            ) from error
        self._open: dict[str, int] = {}
        self._has_new = False  # names of which the disk may not know

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob(f"*{SUFFIX}"))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with (self.directory / name).open("rb") as file:
            file.seek(offset)
            return file.read() if length is None else file.read(length)

    def append(self, name: str, buffers: Sequence[Any], at: int) -> None:
        fd = self._fd(name)
        os.lseek(fd, at, os.SEEK_SET)
        pending = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        while pending:
            try:
                written = os.writev(fd, pending[:BUFFERS_MAX])
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.directory / name)) from error
            while pending and written >= len(pending[0]):
                written -= len(pending.pop(0))
            if written:
                pending[0] = pending[0][written:]

    def sync(self, name: str) -> None:
        if self._has_new:
            self._has_new = False
            self._sync_names()
        fd = os.open(self.directory / name, os.O_RDWR)  # its own: this thread owns no other
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def _sync_names(self) -> None:
        folder = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        except OSError:
            self._has_new = True
            raise
        finally:
            os.close(folder)

    def cut(self, name: str, size: int) -> None:
        os.truncate(self._fd(name), size)

    def remove(self, name: str) -> None:
        fd = self._open.pop(name, None)
        if fd is not None:
            os.close(fd)
        (self.directory / name).unlink(missing_ok=True)

    def close(self) -> None:
        for fd in (*self._open.values(), self._lock):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._open.clear()

    def _fd(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is None:
            while len(self._open) >= OPEN_MAX:
                os.close(self._open.pop(next(iter(self._open))))
            fd = self._open[name] = os.open(self.directory / name, os.O_RDWR | os.O_CREAT, 0o644)
            self._has_new = True
        return fd
