"""Savepoints on disk: whole ones are read as they were written, and all others are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.backupserver.savepoint import FORMAT, MANIFEST, read_savepoint, write_part
from riprap.codec.errors import ConfigError, DataError
from riprap.codec.ids import WorkerId

TOPOLOGY: dict[str, Any] = {"stages": {"split": {"parallelism": 2}, "count": {}}, "edges": []}
WORKERS = [WorkerId("split", 0), WorkerId("split", 1), WorkerId("count", 0)]
LARGE = np.arange(100_000)


def write(directory: Path, checkpoint: int = 7, **changes: Any) -> None:
    for number, worker in enumerate(WORKERS):
        write_part(
            directory, worker, {"checkpoint": checkpoint, "number": number}, [LARGE, np.full((2, 3), number / 2)]
        )
    fields = {"format": FORMAT, "job": "words", "checkpoint": checkpoint, "topology": TOPOLOGY} | changes
    with (directory / MANIFEST).open("a") as file:
        file.write(json.dumps(fields) + "\n")


def test_parts_are_read_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path / "saved")
    savepoint = read_savepoint(tmp_path / "saved")
    savepoint.check()
    assert (savepoint.job, savepoint.checkpoint) == ("words", 7)
    assert [savepoint.tasks(stage) for stage in ("split", "count", "other")] == [2, 1, 0]
    for number, worker in enumerate(WORKERS):
        part = savepoint.part(worker)
        assert part.meta == savepoint.fields(worker) == {"checkpoint": 7, "number": number}
        assert (part.arrays[0] == LARGE).all() and (part.arrays[1] == number / 2).all()
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == sorted(
        [MANIFEST, *map("{}.part".format, WORKERS)]
    )


def test_only_the_last_that_is_whole_counts(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, 9)
    assert read_savepoint(tmp_path).checkpoint == 9
    read_savepoint(tmp_path).check()
    write_part(tmp_path, WORKERS[1], {"checkpoint": 8}, [])
    with pytest.raises(DataError, match=r"split\.1\.part is of checkpoint 8"):
        read_savepoint(tmp_path).check()


def test_the_first_array_begins_where_it_can_be_mapped(tmp_path: Path) -> None:
    for length in range(8):
        write_part(tmp_path, WORKERS[0], {"checkpoint": 7, "text": "x" * length}, [LARGE])
        (tmp_path / MANIFEST).write_text(
            json.dumps({"format": FORMAT, "job": "words", "checkpoint": 7, "topology": TOPOLOGY}) + "\n"
        )
        (array,) = read_savepoint(tmp_path).part(WORKERS[0]).arrays
        assert array.flags.aligned and (array == LARGE).all()


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_a_torn_part_is_none(tmp_path: Path, keep: int) -> None:
    write(tmp_path)
    path = tmp_path / "count.0.part"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"count\.0\.part"):
        read_savepoint(tmp_path).check()


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "split.0.part"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="checksum"):
        read_savepoint(tmp_path).part(WORKERS[0])


def test_what_is_no_savepoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no savepoint"):
        read_savepoint(tmp_path)
    for text in ("", "{}", "not json", "[" * 100_000, '{"format": 1, "job": "a", "checkpoint": 1, "topology": {}}'):
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(ConfigError, match="cannot be read"):
            read_savepoint(tmp_path)
    (tmp_path / MANIFEST).unlink()
    write(tmp_path, format=FORMAT + 1)
    with pytest.raises(ConfigError, match="newer Riprap"):
        read_savepoint(tmp_path)
