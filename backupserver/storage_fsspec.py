"""Segments as objects of any file system that fsspec knows: S3, HDFS, memory, and so on.

Objects cannot grow there, so that each group of records is written as one object, whole or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import fsspec

from riprap.codec.errors import ConfigError

SUFFIX = ".segment"


@contextlib.contextmanager
def _medium() -> Iterator[None]:
    """Turn what a file system's library raises into OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


class FsspecStorage:
    """A URL prefix; one server must own it, for object stores have no locks."""

    appends = False
    folder = ""

    def __init__(self, url: str) -> None:
        try:
            self._files, self._folder = fsspec.core.url_to_fs(url)
            self._files.makedirs(self._folder, exist_ok=True)
        except Exception as error:  # each library raises its own
            raise ConfigError(
                f"the storage {url}: {error}", "install the package that the message names, or correct the URL"
            ) from error

    def names(self) -> list[str]:
        self._files.invalidate_cache(self._folder)
        try:
            with _medium():
                paths = self._files.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []  # an object store knows no empty folders
        found = (str(path).rpartition("/")[2] for path in paths)
        return sorted(name for name in found if name.endswith(SUFFIX))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        end = None if length is None else offset + length
        with _medium():
            return bytes(self._files.cat_file(self._path(name), start=offset, end=end))

    def append(self, name: str, buffers: Sequence[Any], at: int) -> None:
        assert at == 0, "each object is written once"
        with _medium():
            self._files.pipe_file(self._path(name), b"".join(buffers))

    def sync(self, name: str) -> None:
        pass  # an object that was put is stored

    def cut(self, name: str, size: int) -> None:
        if size == 0:
            self.remove(name)

    def remove(self, name: str) -> None:
        with _medium(), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def close(self) -> None:
        pass

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"
