"""Which files of a ZooKeeper server's data nothing needs any more: logs and snapshots older than a few snapshots.

A server on its own never removes them (its `autopurge` is that of a member of an ensemble, and at best hourly). The
rule is that of ZooKeeper's own `PurgeTxnLog`: the newest whole snapshots stay, and of the logs every one that may hold
a transaction which the oldest of those lacks.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

FOLDER = "version-2"
SNAPSHOTS_KEPT = 3
"""As many as `PurgeTxnLog` demands at least: the newest may be torn by the server's death."""
SNAPSHOT_END = b"\x00\x00\x00\x01/"
"""A snapshot whose writing was cut off does not end so."""


class TransactionLog:
    """The transaction logs and snapshots below one `dataDir`; `purge` may be called while the server writes."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER
        self._purged_at = 0

    def purge(self) -> int:
        """Remove what nothing needs, if files have come or gone since the last call; returns how many it removed.

        OSError when the folder cannot be read or written; no folder, no files.
        """
        try:
            changed = os.stat(self._folder).st_mtime_ns
        except FileNotFoundError:
            return 0
        if changed == self._purged_at:
            return 0
        files = list(self._folder.iterdir())
        old = superfluous(files, torn=[path for path in files if not _is_whole(path)])
        for path in old:
            path.unlink(missing_ok=True)
        self._purged_at = changed
        return len(old)


def superfluous(files: Collection[Path], torn: Collection[Path] = ()) -> list[Path]:
    """The logs and snapshots among `files` that no start of the server would read; it passes over `torn` snapshots.

    A snapshot is named for the last transaction before it began, a log for the first that is in it, both in
    hexadecimal; a snapshot needs the log that its first transaction may be in, and all later ones.
    """
    snapshots, logs = _numbered(files, "snapshot"), _numbered(files, "log")
    whole = sorted(number for number, path in snapshots.items() if path not in torn)
    if len(whole) < SNAPSHOTS_KEPT:
        return []
    oldest = whole[-SNAPSHOTS_KEPT]
    first_log = max((number for number in logs if number <= oldest), default=0)
    old_snapshots = [path for number, path in snapshots.items() if number < oldest]
    return old_snapshots + [path for number, path in logs.items() if number < first_log]


def _numbered(files: Collection[Path], kind: str) -> dict[int, Path]:
    """The files of one kind by the transaction that they are named for."""
    found = {}
    for path in files:
        name, _, number = path.name.partition(".")
        if name == kind:
            try:
                found[int(number, 16)] = path
            except ValueError:
                continue  # not a name that the server gives
    return found


def _is_whole(path: Path) -> bool:
    """False for a snapshot that is being written, or never was to its end."""
    if not path.name.startswith("snapshot."):
        return True
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - len(SNAPSHOT_END)))
            return stream.read() == SNAPSHOT_END
    except FileNotFoundError:
        return False
