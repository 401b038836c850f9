"""A savepoint: the parts of one checkpoint in a directory of their own, by the names of stages and tasks, from which
any job may begin.

    DIR/STAGE.INDEX.part   each task's part: a record as backup servers keep it (backupserver/record.py)
    DIR/savepoint.json     written when all parts are on disk: format, job, checkpoint and topology, a line of JSON

Only the last line of savepoint.json counts, and only parts of the checkpoint that it names.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riprap.backupserver.body import pack_body, unpack_body
from riprap.backupserver.record import HEADER, TAIL, Head, check, pack, read_header
from riprap.codec.errors import ConfigError, DataError, FrameError
from riprap.codec.files import replacing
from riprap.codec.ids import WorkerId
from riprap.codec.json_text import from_json

if TYPE_CHECKING:
    import numpy as np

FORMAT = 1
MANIFEST = "savepoint.json"
ALIGNED, FILLING = 8, "filling"


@dataclass(frozen=True)
class TaskPart:
    """A task's part: its fields and arrays (engine/schemes/barrier.py)."""

    meta: Mapping[str, Any]
    arrays: Sequence[np.ndarray]


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that is whole; its parts are read as they are asked for."""

    directory: Path
    job: str
    checkpoint: int
    topology: Mapping[str, Any]

    def tasks(self, stage: str) -> int:
        """The number of tasks that a stage had; 0 for one that was not there."""
        found = self.topology["stages"].get(stage)
        return 0 if found is None else int(found.get("parallelism", 1))

    def part(self, worker: WorkerId) -> TaskPart:
        """The part of a task. DataError when it is not there, or is not as it was written."""
        path = _path(self.directory, worker)
        try:
            meta, arrays = _unpacked(path, checked=True)
        except (OSError, FrameError) as error:
            raise DataError(f"{path} is no part of a savepoint: {error}", "use a savepoint that is whole") from error
        if meta.get("checkpoint") != self.checkpoint:
            raise DataError(
                f"{path} is of checkpoint {meta.get('checkpoint')}, and {MANIFEST} of {self.checkpoint}",
                "make the savepoint anew, in an empty directory",
            )
        return TaskPart(meta, arrays)

    def fields(self, worker: WorkerId) -> Mapping[str, Any]:
        """The fields of a task's part, whose arrays are not read. DataError as `part`."""
        path = _path(self.directory, worker)
        try:
            return _unpacked(path, checked=False)[0]
        except (OSError, FrameError) as error:
            raise DataError(f"{path} is no part of a savepoint: {error}", "use a savepoint that is whole") from error

    def check(self) -> None:
        """DataError unless all parts are there, as they were written."""
        for stage in self.topology["stages"]:
            for index in range(self.tasks(stage)):
                self.part(WorkerId(stage, index))


def write_part(directory: Path, worker: WorkerId, meta: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Write a task's part, on disk and under its name in one step. OSError where that cannot be.

    Its fields are filled up so that the first array begins at a multiple of eight bytes: who maps it need not copy it.
    """
    begin = HEADER.size + len(str(worker).encode())
    body = pack_body({**meta, FILLING: b""}, arrays)
    body = pack_body({**meta, FILLING: bytes(-(begin + len(body[0]) + len(body[1])) % ALIGNED)}, arrays)
    directory.mkdir(parents=True, exist_ok=True)
    with replacing(_path(directory, worker)) as file:
        for buffer in pack(Head("checkpoint", str(worker), 0, 0, meta["checkpoint"]), body):
            file.write(buffer)


def read_savepoint(directory: Path) -> Savepoint:
    """The savepoint in a directory; ConfigError where there is none that is whole, or one of a later version."""
    path = directory / MANIFEST
    try:
        lines = path.read_text().splitlines()
        fields = from_json(lines[-1])
        version = fields["format"]
        found = Savepoint(directory, fields["job"], fields["checkpoint"], fields["topology"])
        found.topology["stages"].items()
    except FileNotFoundError as error:
        raise ConfigError(f"{directory} holds no savepoint", "make one with `riprap savepoint JOB DIR`") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "use a savepoint that is whole") from error
    if version != FORMAT:
        raise ConfigError(f"{path} is of format {version}, and this is Riprap for {FORMAT}", "use a newer Riprap")
    return found


def _path(directory: Path, worker: WorkerId) -> Path:
    return directory / f"{worker}.part"


def _unpacked(path: Path, checked: bool) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Fields and arrays of the record in a file; FrameError as `_body`."""
    meta, arrays = unpack_body(_body(path, checked))
    meta.pop(FILLING, None)
    return meta, arrays


def _body(path: Path, checked: bool) -> memoryview:
    """The body of the record in a file, mapped. FrameError when it is not whole, or `checked` and not as written."""
    with path.open("rb") as file:
        data = (
            memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if path.stat().st_size else memoryview(b"")
        )
    header = read_header(data[: HEADER.size], 0)
    if header is None or header[2] != len(data):
        raise FrameError("it is not whole")
    _, name_length, _ = header
    if checked and check(data, name_length) is None:
        raise FrameError("its checksum is wrong")
    return data[HEADER.size + name_length : len(data) - TAIL.size]
