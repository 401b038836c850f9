"""One text file that grows: the lines that were added, and the marks that tell it from another file of its name."""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

from riprap.operators.inputs.live_lines import LINE_BYTES_MAX, Report, whole_bytes

HEAD_BYTES = 256
"""Bytes at the start of a file that tell it from another: an inode is used again soon."""


class FilePlace(NamedTuple):
    """The place where reading goes on: a file's name and offset, and the checksum of its first `head` bytes."""

    name: str
    offset: int = 0
    head: int = 0
    checksum: int = 0
    skipping: bool = False
    """Within a line that is too long."""


def file_id(status: os.stat_result) -> str:
    """Names a file whatever it is called."""
    return f"{status.st_dev:x}:{status.st_ino:x}"


class FollowedFile:
    """A file held open, so that it can be read to its end after it was renamed or removed."""

    def __init__(self, path: str, place: FilePlace, report: Report) -> None:
        """Raises OSError when it cannot be opened."""
        self.place, self._report = place, report
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.id = file_id(os.fstat(self._fd))

    @property
    def is_gone(self) -> bool:
        """True when no name leads to it any more."""
        return os.fstat(self._fd).st_nlink == 0

    def close(self) -> None:
        """Close the file; it is not read any more."""
        os.close(self._fd)

    def read(self, lines: int, nbytes: int, rest: bool) -> bytes:
        """Whole lines, with their newlines, behind the last; `rest`: also one that has none. Empty: nothing new."""
        self._look()
        data = self._ahead(nbytes)
        while data and (self.place.skipping or (b"\n" not in data and len(data) >= LINE_BYTES_MAX)):
            self._skip(data)
            data = self._ahead(nbytes)
        found = data[: whole_bytes(data, lines)] or (data if rest else b"")
        if found:
            self._advance(len(found), False)
        return found

    def _ahead(self, nbytes: int) -> bytes:
        """The bytes that come next; at least a line, unless it is too long or not whole yet."""
        data = os.pread(self._fd, nbytes, self.place.offset)
        if b"\n" not in data and len(data) == nbytes:
            data = os.pread(self._fd, max(nbytes, LINE_BYTES_MAX), self.place.offset)
        return data

    def _skip(self, data: bytes) -> None:
        """Leave out a part of a line that is too long."""
        if not self.place.skipping:
            self._report("input_line_dropped", file=self.place.name, offset=self.place.offset, bytes_max=LINE_BYTES_MAX)
        end = data.find(b"\n") + 1
        self._advance(end or len(data), not end)

    def _look(self) -> None:
        """Start anew when the file was cut, or written over."""
        place = self.place
        if os.fstat(self._fd).st_size < place.offset or self._checksum(place.head) != place.checksum:
            self._report("input_truncated", file=place.name, offset=place.offset)
            self.place = FilePlace(place.name)

    def _advance(self, count: int, skipping: bool) -> None:
        offset = self.place.offset + count
        head = min(offset, HEAD_BYTES)
        checksum = self.place.checksum if head == self.place.head else self._checksum(head)
        self.place = FilePlace(self.place.name, offset, head, checksum, skipping)

    def _checksum(self, head: int) -> int:
        return zlib.crc32(os.pread(self._fd, head, 0))
