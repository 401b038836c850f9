"""Finds and opens raw files, local or on any file system that fsspec knows, compressed with gzip or not."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import fsspec

from riprap.prep_spark.errors import PrepError

GZIP_MAGIC = b"\x1f\x8b"
CHUNK_BYTES = 4 << 20
FETCH = "check it with gzip -t and fetch it again"


class DamagedFile(PrepError):
    """Compressed data that cannot be decompressed to its end."""


class RawFile(NamedTuple):
    """A file and its size in bytes, as it is stored."""

    path: str
    size: int


def find_files(names: Sequence[str]) -> list[RawFile]:
    """The files that paths, globs, folders or URLs name: in the order of the names, those of one sorted.

    Raises PrepError for a name that names no file.
    """
    found: list[RawFile] = []
    for name in names:
        try:
            system, path = fsspec.core.url_to_fs(name)
            paths = system.glob(path) if fsspec.core.has_magic(path) else [path]
            paths = [file for entry in paths for file in (system.find(entry) if system.isdir(entry) else [entry])]
            files = [RawFile(system.unstrip_protocol(file), system.size(file)) for file in sorted(paths)]
        except (OSError, ValueError, ImportError) as error:
            raise PrepError(f"{name} cannot be read: {error}", "check the path, the glob or the URL") from error
        if not files:
            raise PrepError(f"{name} names no file", "check the path; a glob must match at least one file")
        found += [RawFile(local_path(file.path), file.size) for file in files]
    return found


def local_path(url: str) -> str:
    """`file:///a/b` as `/a/b`; other URLs as they are."""
    return url.removeprefix("file://") if url.startswith("file://") else url


def is_compressed(path: str) -> bool:
    """True when the first bytes of a file are gzip's. PrepError when it cannot be read."""
    try:
        with fsspec.open(path, "rb") as file:
            return bool(file.read(2) == GZIP_MAGIC)
    except OSError as error:
        raise PrepError(f"{path} cannot be read: {error}", "check the file") from error


def read_chunks(path: str) -> Iterator[bytes]:
    """The bytes of a file, decompressed when its first ones are gzip's, whatever its name; at most CHUNK_BYTES each.

    Raises PrepError when it cannot be read; DamagedFile, after all that could be read, when its compressed data is
    damaged or ends too early.
    """
    try:
        with fsspec.open(path, "rb") as file:
            first = file.read(CHUNK_BYTES)
            chunks = chain([first], iter(lambda: file.read(CHUNK_BYTES), b""))
            yield from _inflated(path, chunks) if first.startswith(GZIP_MAGIC) else filter(None, chunks)
    except OSError as error:
        raise PrepError(f"{path} cannot be read: {error}", "check the file") from error


def _inflated(path: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """One or more gzip members; zeros behind them are padding."""
    member = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        full = False  # then more may come without further input
        while chunk or full:
            if member.eof:
                chunk = chunk.lstrip(b"\0")
                if not chunk:
                    break
                member = zlib.decompressobj(wbits=31)
            try:
                plain = member.decompress(chunk, CHUNK_BYTES)
            except zlib.error as error:
                raise DamagedFile(f"{path} holds damaged compressed data: {error}", FETCH) from error
            if plain:
                yield plain
            full = len(plain) == CHUNK_BYTES
            chunk = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise DamagedFile(f"{path} ends in the middle of its compressed data", FETCH)
