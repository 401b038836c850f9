"""The interface of a log's storage; `open_storage` picks the class by the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Storage(Protocol):
    """Named segments of bytes. Errors of the medium are OSError."""

    folder: str
    """The directory that has segments as files, which others on this host may read; empty where there is none."""

    appends: bool
    """True when a segment can grow; otherwise each group of records becomes a segment of its own."""

    def names(self) -> list[str]:
        """All segments, oldest first."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a segment, to its end without a length."""

    def append(self, name: str, buffers: Sequence[Any], at: int) -> None:
        """Write buffers behind the first `at` bytes of a segment; the caller cuts off what an error leaves behind."""

    def sync(self, name: str) -> None:
        """Return when what was appended survives the machine's crash; called on a thread of its own."""

    def cut(self, name: str, size: int) -> None:
        """Keep the first `size` bytes only."""

    def remove(self, name: str) -> None:
        """Delete a segment."""

    def close(self) -> None:
        """Give the place back."""


def open_storage(address: str) -> Storage:
    """The storage at a directory or an fsspec URL; ConfigError when it cannot be used."""
    if "://" in address:
        from riprap.backupserver.storage_fsspec import FsspecStorage

        return FsspecStorage(address)
    from riprap.backupserver.storage_local import LocalStorage

    return LocalStorage(address)
