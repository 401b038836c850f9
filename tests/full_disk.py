"""A file system of a few megabytes that can be filled up and given room again, for tests of what a full disk does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class SmallDisk:
    """A tmpfs at `path`; whatever is written there may find no room."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / ".ballast"

    def fill(self, leave_bytes: int = 0) -> None:
        """Leave this much room, to a page."""
        stat = os.statvfs(self.path)
        with suppress(OSError), self._ballast.open("ab") as file:
            for _ in range((stat.f_bavail * stat.f_bsize - leave_bytes) // 4096):
                file.write(bytes(4096))
                file.flush()

    def make_room(self) -> None:
        """Take back what `fill` took."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[SmallDisk]:
    """Mount a tmpfs of a size such as 20m at a new folder; it is gone afterwards."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
