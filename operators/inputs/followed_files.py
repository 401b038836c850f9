"""Follows a text file, or the files of a directory: all that is there, then lines and files as they come (as tail -F).

A file is the same file whatever it is called (device, inode, its first bytes). When another one stands under its name,
the rest of the old one is read first. Files take turns by name, a block each.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass, field

from riprap.operators.inputs.followed_file import FilePlace, FollowedFile, file_id
from riprap.operators.inputs.live_lines import Lines, Places, Report, lines_of

TURNS = 16
"""Blocks between two looks for other files, while there is something to read."""
HELD_MAX = 8
"""The most earlier files of the followed name that are held open; the oldest is given up when there are more.
Of a directory all are held open, for there they would be found again."""


@dataclass
class Name:
    """The files that have stood under one name, the oldest first; only the last one may still stand there."""

    files: list[FollowedFile] = field(default_factory=list)


class FollowedFiles:
    """The files that task `index` of `tasks` reads: of a directory, those whose identity falls to it."""

    def __init__(self, path: str, index: int, tasks: int, report: Report) -> None:
        self._path, self._index, self._tasks, self._report = path, index, tasks, report
        self._is_directory = os.path.isdir(path)
        self._names: dict[str, Name] = {}
        self._known: set[str] = set()
        self._changed: dict[str, list[object] | None] = {}
        self._turn = ""
        self._until_look = 0

    def go_to(self, places: Places) -> None:
        """Go on in the files of a former incarnation; one that is not there any more is reported."""
        paths = self._by_identity()
        for identity, place in places.items():  # in which one that came later stands behind those of its name
            found = FilePlace(*place)
            try:
                self._open(paths[identity], found)
            except (KeyError, OSError):
                self._report("input_gone", file=found.name, offset=found.offset)
                self._changed[identity] = None

    def take(self, lines: int, nbytes: int, rest: bool) -> Lines | None:
        """Lines of the next file that has some. `rest`: also the last line of each file, where it has no newline."""
        self._until_look -= 1
        if self._until_look <= 0:
            self._look()
        found = self._next(lines, nbytes, rest)
        if not found and self._until_look < TURNS:
            self._look()
            found = self._next(lines, nbytes, rest)
        if not found and not self._changed:
            return None
        changed, self._changed = self._changed, {}
        return lines_of(found, changed)

    def _next(self, lines: int, nbytes: int, rest: bool) -> bytes:
        names = sorted(self._names)
        for name in [*(n for n in names if n > self._turn), *(n for n in names if n <= self._turn)]:
            if found := self._read(self._names[name], lines, nbytes, rest):
                self._turn = name
                return found
        return b""

    def _read(self, name: Name, lines: int, nbytes: int, rest: bool) -> bytes:
        """The bytes of the oldest file that has some; those that will never have any are closed."""
        for file in list(name.files):
            before = file.place
            ends = rest or file.is_gone or (not self._is_directory and len(name.files) > HELD_MAX)
            found = file.read(lines, nbytes, ends)
            if file.place != before:
                self._changed[file.id] = list(file.place)
            if found:
                return found
            if ends and not rest:
                self._close(name, file)
        return b""

    def _close(self, name: Name, file: FollowedFile) -> None:
        name.files.remove(file)
        self._known.discard(file.id)
        self._changed[file.id] = None
        file.close()

    def _look(self) -> None:
        self._until_look = TURNS
        for path in self._listed(self._path) if self._is_directory else [self._path]:
            with suppress(FileNotFoundError):  # gone meanwhile; what was held of it is read to its end
                identity = file_id(os.stat(path))
                if identity not in self._known and self._is_ours(identity):
                    self._open(path, FilePlace(path))
                    self._changed[identity] = list(FilePlace(path))

    def _open(self, path: str, place: FilePlace) -> None:
        file = FollowedFile(path, place, self._report)
        self._known.add(file.id)
        self._names.setdefault(place.name, Name()).files.append(file)

    def _is_ours(self, identity: str) -> bool:
        return not self._is_directory or zlib.crc32(identity.encode()) % self._tasks == self._index

    def _by_identity(self) -> dict[str, str]:
        """The path of each file that may be one of a former incarnation."""
        found: dict[str, str] = {}
        for path in self._candidates():
            with suppress(OSError):
                found.setdefault(file_id(os.stat(path)), path)
        return found

    def _candidates(self) -> list[str]:
        """The paths at which files of a former incarnation may be found: the followed one, and those it is renamed to,
        may have any name."""
        if self._is_directory:
            return self._listed(self._path)
        return [*self._files(os.path.dirname(self._path)), self._path]

    @classmethod
    def _listed(cls, directory: str) -> list[str]:
        """Its plain files by name, without hidden and compressed ones."""
        return [path for path in cls._files(directory) if os.path.basename(path)[0] not in "._"]

    @staticmethod
    def _files(directory: str) -> list[str]:
        """Its plain files by name, without compressed ones."""
        with suppress(OSError), os.scandir(directory or ".") as entries:
            return sorted(e.path for e in entries if not e.name.endswith(".gz") and e.is_file())
        return []
