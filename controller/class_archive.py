"""The classes of a JVM as it holds them in memory, kept in the user's cache: a start that maps them reads no jar.

The first server that is stopped writes the archive as it ends, and those started later map it, which halves the CPU
time of their start. Nothing depends on it: where it cannot be kept, is torn, or does not fit, a JVM starts without.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from crc32c import crc32c

from riprap.codec.files import remove_partial

OPTIONS = ("-Xshare:auto", "-Xlog:cds*=off")
"""Have a JVM go on, and say nothing, when an archive does not fit."""
KEPT_MAX = 4
"""Archives of about 10 MB each, of other jars or JVMs than the present ones."""


class ClassArchive:
    """The archive of one command, `java FLAGS -cp JARS CLASS`; each of its starts wants `options`, behind `java`.

    Its name says what it depends on, and its own checksum.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._folder, self._name = cache_folder(), _name(command)
        self._partial: Path | None = None

    def options(self) -> list[str]:
        """The flags of a JVM that maps the archive; without one, of a JVM that will write it; else none."""
        self._partial = None
        if self._folder is None or self._name is None:
            return []
        if found := self._find():
            return [*OPTIONS, f"-XX:SharedArchiveFile={found}"]
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self._folder, os.W_OK | os.X_OK):
            return []
        self._partial = self._folder / f".{self._name}.{os.getpid()}.part"
        return [*OPTIONS, f"-XX:ArchiveClassesAtExit={self._partial}"]

    def is_wanted(self) -> bool:
        """True when the JVM would write the archive as it ends, and no other has done so meanwhile."""
        return self._partial is not None and self._find() is None

    def keep(self) -> None:
        """Put what the JVM has written in place, once it has ended of its own; no effect when that is nothing."""
        assert self._folder is not None and self._partial is not None
        with contextlib.suppress(OSError):
            self._partial.rename(self._folder / f"{self._name}-{_checksum(self._partial)}.jsa")
            remove_partial(self._folder)  # of JVMs that were killed meanwhile
            for old in sorted(self._folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime)[:-KEPT_MAX]:
                old.unlink()

    def _find(self) -> Path | None:
        """The archive, when it is ours and whole; one that is not is removed."""
        assert self._folder is not None
        for path in self._folder.glob(f"{self._name}-*.jsa"):
            with contextlib.suppress(OSError):
                if path.stat().st_uid == os.geteuid() and path.stem == f"{self._name}-{_checksum(path)}":
                    return path
                path.unlink()
        return None


def cache_folder() -> Path | None:
    """The folder of archives, under $XDG_CACHE_HOME or ~/.cache; None when there is none that a JVM could name."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "riprap"
    except RuntimeError:  # a user without a home
        return None
    return None if ":" in str(folder) else folder  # it parts the names of several archives


def _name(command: Sequence[str]) -> str | None:
    """The part of the name that says what an archive depends on; None when a part of that cannot be looked at."""
    java, jars = Path(command[0]).resolve(), command[command.index("-cp") + 1].split(":")
    try:
        files = [_identity(path) for path in (java, *_libraries(java), *map(Path, jars))]
    except OSError:
        return None
    return "zookeeper-" + hashlib.sha256(repr([*command, *files]).encode()).hexdigest()[:16]


def _libraries(java: Path) -> Iterator[Path]:
    """The JVM itself, and its archive of Java's own classes, on which ours builds."""
    yield from sorted((java.parent.parent / "lib" / "server").glob("*"))


def _identity(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


def _checksum(path: Path) -> str:
    return f"{crc32c(path.read_bytes()):08x}"
