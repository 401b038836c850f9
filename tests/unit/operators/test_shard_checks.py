"""Shards are looked at before they are streamed: damaged bytes, NaN and infinity, and what was looked at before."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import DataError
from riprap.operators.base import Context
from riprap.operators.inputs import shard_checks
from riprap.operators.inputs.job_input import open_input, verify_input
from riprap.operators.inputs.shard_checks import Checks, bad_rows
from riprap.operators.inputs.shard_source import ShardSource
from riprap.operators.inputs.shards import open_shards

ROWS, SHARD_ROWS = 25, 10
RECORD = np.dtype([("time", "<i8"), ("label", "<f4"), ("values", "<f4", (3,))])
BAD = st.sampled_from([np.nan, np.inf, -np.inf])


def save(folder: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    np.save(folder / name, array)
    content = (folder / name).read_bytes()
    return {"file": name, "rows": len(array), "bytes": len(content), "crc32": f"{zlib.crc32(content):08x}"}


def write(folder: Path, rows: np.ndarray, **fields: Any) -> Path:
    """Shards of ten rows, of a matrix or of records."""
    pieces = [rows[start : start + SHARD_ROWS] for start in range(0, len(rows), SHARD_ROWS)]
    shards = [save(folder, f"part-{number:05d}.npy", piece) for number, piece in enumerate(pieces)]
    kind: dict[str, Any] = {"format": "riprap-records", "dtype": np.lib.format.dtype_to_descr(rows.dtype)}
    if rows.dtype.names is None:
        kind = {"format": "riprap-shards", "dtype": "<f8", "columns": ["label", "a", "b"], "label": "label"}
    manifest = {"version": 1, "rows": len(rows), **kind, "shards": [shard | fields for shard in shards]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def matrix(*bad: tuple[int, int, float]) -> np.ndarray:
    rows = np.arange(ROWS * 3.0).reshape(ROWS, 3)
    for row, column, value in bad:
        rows[row, column] = value
    return rows


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2), BAD), max_size=6), st.integers(1, 40))
def test_bad_rows_are_those_that_a_look_at_each_number_finds(bad: list[tuple[int, int, float]], chunk: int) -> None:
    rows, records = np.full((100, 3), 1e308), np.zeros(100, RECORD)
    records["values"] = 3e38  # the sums are infinite, the numbers are not
    for row, column, value in bad:
        rows[row, column] = value
        (records["values"][row] if column else records["label"][row : row + 1])[column - 1 :][:1] = value
    expected = [row for row in range(100) if not all(np.isfinite(rows[row]))]
    before, shard_checks.CHUNK_BYTES = shard_checks.CHUNK_BYTES, chunk * 24
    try:
        assert bad_rows(rows).tolist() == bad_rows(records).tolist() == expected
    finally:
        shard_checks.CHUNK_BYTES = before
    assert bad_rows(np.zeros(10, np.uint8)).tolist() == []


def test_a_bad_row_is_named_with_its_file_and_column(tmp_path: Path) -> None:
    write(tmp_path, matrix((12, 2, np.inf), (17, 0, np.nan)))
    with pytest.raises(DataError) as raised:
        open_shards(tmp_path, Checks(True, "fail"))
    said = f"{tmp_path}/part-00001.npy: row 2 (from 0) has inf in column b; 2 of 25 rows are not finite"
    assert raised.value.args[0] == said and "input.bad_rows=drop" in raised.value.remedy
    kept = open_shards(tmp_path, Checks(True, "keep"))
    np.testing.assert_array_equal(kept.read(0, ROWS), matrix((12, 2, np.inf), (17, 0, np.nan)))


def test_a_bad_record_is_named_by_its_field(tmp_path: Path) -> None:
    records = np.zeros(ROWS, RECORD)
    records["values"][24, 1] = np.nan
    write(tmp_path, records)
    with pytest.raises(DataError, match=r"part-00002\.npy: row 4 \(from 0\) has nan in column values; 1 of 25"):
        open_input(tmp_path, checks=Checks(True, "fail"))
    records["values"][3] = np.inf
    assert open_input(write(tmp_path, records), checks=Checks(True, "drop")).items == ROWS - 2


@pytest.mark.parametrize("bad", [(0,), (9, 10), (24,), (3, 4, 5, 13), tuple(range(10, 20)), (0, 1, 24)])
def test_dropped_rows_are_in_no_range(tmp_path: Path, bad: tuple[int, ...]) -> None:
    write(tmp_path, matrix(*((row, 1, np.nan) for row in bad)))
    shards = open_shards(tmp_path, Checks(True, "drop"))
    left = np.delete(matrix(), bad, axis=0)
    assert shards.rows == len(left) == ROWS - shards.dropped
    for start in range(len(left) + 1):
        for stop in range(start, len(left) + 1):
            np.testing.assert_array_equal(shards.read(start, stop), left[start:stop])
    sources = [ShardSource() for _ in range(2)]
    for index, source in enumerate(sources):
        source.open(Context(index=index, parallelism=2, input={"path": str(tmp_path), "repeat": 2, "bad_rows": "drop"}))
    stream = np.concatenate([source.read(0, source.items or 0) for source in sources])
    np.testing.assert_array_equal(stream, np.concatenate([left, left]))
    assert verify_input(str(tmp_path), Checks(True, "drop"))[1] == len(bad)


def test_an_input_without_a_good_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no row of the input is finite"):
        open_shards(write(tmp_path, matrix()[:10] * np.nan), Checks(True, "drop"))


def test_what_prep_found_finite_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_checks, "bad_rows", lambda rows: pytest.fail("it was"))
    open_shards(write(tmp_path, matrix(), finite=True), Checks(True, "fail"))


def damage(file: Path) -> None:
    """Change one byte, and no size or time."""
    stat = file.stat()
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("kind", ["matrix", "records", "lines", "offsets"])
def test_damage_names_the_file_and_both_checksums(tmp_path: Path, kind: str) -> None:
    if kind in ("matrix", "records"):
        write(tmp_path, matrix() if kind == "matrix" else np.zeros(ROWS, RECORD))
        name = "part-00002.npy"
    else:
        bounds = save(tmp_path, "part-00000.offsets.npy", np.array([0, 0, 6]))
        text = save(tmp_path, "part-00000.npy", np.zeros(6, np.uint8)) | {"rows": 2, "offsets": bounds}
        manifest = {"format": "riprap-lines", "version": 1, "rows": 2, "shards": [text]}
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        name = "part-00000.npy" if kind == "lines" else "part-00000.offsets.npy"
        if kind == "offsets":
            np.save(tmp_path / name, np.array([0, 4, 6]))
    expected = verify_input(str(tmp_path), Checks(True, "fail"))[0] if kind != "offsets" else ""
    if kind != "offsets":
        damage(tmp_path / name)
    entries = json.loads((tmp_path / "manifest.json").read_text())["shards"]
    entry = next(e for shard in entries for e in (shard, shard.get("offsets", shard)) if e["file"] == name)
    found = f"{zlib.crc32((tmp_path / name).read_bytes()):08x}"
    with pytest.raises(DataError) as raised:
        open_input(tmp_path, checks=Checks(True, "fail"))
    assert raised.value.args[0] == f"{tmp_path / name}: expected checksum {entry['crc32']}, found {found}"
    open_input(tmp_path, checks=Checks(False, "fail"))
    if kind != "offsets":
        open_input(tmp_path, checks=Checks(True, "fail", [expected]))  # read before: it is not read again


def test_only_what_was_looked_at_is_known(tmp_path: Path) -> None:
    known, _ = verify_input(str(write(tmp_path, matrix())), Checks(True, "fail"))
    write(tmp_path, matrix((3, 1, np.nan)))
    with pytest.raises(DataError, match="nan in column a"):
        open_shards(tmp_path, Checks(True, "fail", [known]))
    assert verify_input(str(tmp_path / "nothing"), Checks(True)) == ("", 0)
