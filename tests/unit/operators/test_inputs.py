"""The input of sources: every format, dealt out to tasks, repeated, cut, and damaged."""

import gzip
import json
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.inputs.job_input import TaskInput, open_input
from riprap.operators.inputs.raw_text import split_lines

DESCR = [["time_ns", "<i8"], ["source", "|u1", [4]], ["size", "<u4"]]
DTYPE = np.dtype([("time_ns", "<i8"), ("source", "|u1", (4,)), ("size", "<u4")])
RECORDS = np.zeros(25, DTYPE)
RECORDS["time_ns"] = np.arange(25)
RECORDS["source"] = np.arange(100).reshape(25, 4)
LINES = [f"line {number} {'x' * (number % 5)}".encode() for number in range(25)]


def save(directory: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    np.save(directory / name, array)
    data = (directory / name).read_bytes()
    return {"file": name, "bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}


def write_manifest(directory: Path, **fields: Any) -> Path:
    rows = sum(shard["rows"] for shard in fields["shards"])
    (directory / "manifest.json").write_text(json.dumps({"version": 1, "rows": rows, **fields}))
    return directory


@pytest.fixture
def records(tmp_path: Path) -> Path:
    parts = [RECORDS[start : start + 10] for start in range(0, 25, 10)]
    shards = [{**save(tmp_path, f"part-{n:05d}.npy", part), "rows": len(part)} for n, part in enumerate(parts)]
    return write_manifest(tmp_path, format="riprap-records", dtype=DESCR, shards=shards)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    shards = []
    for number, start in enumerate(range(0, 25, 10)):
        part = LINES[start : start + 10]
        text = save(tmp_path, f"part-{number:05d}.npy", np.frombuffer(b"".join(part), np.uint8))
        bounds = np.cumsum([0, *map(len, part)])
        offsets = save(tmp_path, f"part-{number:05d}.offsets.npy", bounds)
        shards.append({**text, "rows": len(part), "offsets": offsets})
    return write_manifest(tmp_path, format="riprap-lines", dtype="|u1", shards=shards)


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    rows = np.arange(50.0).reshape(25, 2)
    shards = [{**save(tmp_path, "part-00000.npy", rows), "rows": 25}]
    return write_manifest(
        tmp_path, format="riprap-shards", dtype="<f8", columns=["label", "a"], label="label", shards=shards
    )


def texts_of(arrays: tuple[np.ndarray, ...]) -> list[bytes]:
    data, offsets = arrays
    assert data.dtype == np.uint8 and offsets.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == len(data)
    return [data[low:high].tobytes() for low, high in pairwise(offsets)]


def numbers_of(part: TaskInput, start: int, stop: int) -> list[int]:
    """Which rows of the input some items are."""
    arrays = part.read(start, stop)
    if part.kind == "matrix":
        return (arrays[0][:, 0] / 2).astype(int).tolist()
    if part.kind == "records":
        assert arrays[0].dtype == DTYPE
        np.testing.assert_array_equal(arrays[0], RECORDS[arrays[0]["time_ns"]])
        return arrays[0]["time_ns"].tolist()
    return [LINES.index(text) for text in texts_of(arrays)]


KINDS = pytest.mark.parametrize("kind", ["matrix", "records", "lines"])


@KINDS
def test_every_range_of_every_kind_is_right(kind: str, request: pytest.FixtureRequest) -> None:
    whole = open_input(request.getfixturevalue(kind), repeat=2)
    assert (whole.kind, whole.items) == (kind, 50)
    expected = [*range(25), *range(25)]
    for start in range(51):
        for stop in range(start, 51):
            assert numbers_of(whole, start, stop) == expected[start:stop]
    mean = {"matrix": 16, "records": 16, "lines": sum(map(len, LINES)) / 25}
    assert whole.item_bytes == mean[kind]
    with pytest.raises(IndexError):
        whole.read(0, 51)


def test_what_one_shard_holds_is_a_view(records: Path, lines: Path) -> None:
    assert open_input(lines).read(2, 9)[0].base is not None
    assert open_input(lines).read(8, 12)[0].base is None


def test_a_record_that_one_shard_holds_is_a_read_only_view(records: Path) -> None:
    (rows,) = open_input(records).read(11, 19)
    assert rows.base is not None and not rows.flags.writeable


@KINDS
@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("limit", [None, 1, 7, 25, 33, 60, 1000])
@pytest.mark.parametrize("parallelism", [1, 2, 4, 30])
def test_tasks_share_the_items(
    kind: str, repeat: int, limit: int | None, parallelism: int, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(kind)
    parts = [open_input(path, repeat, limit, index, parallelism) for index in range(parallelism)]
    found = [number for part in parts for number in numbers_of(part, 0, part.items)]
    total = 25 * repeat if limit is None else min(25 * repeat, limit)
    stream = ([*range(25)] * repeat)[:total]
    assert sorted(found) == sorted(stream)
    widths = [part.items for part in parts]
    assert limit is not None or max(widths) - min(widths) <= repeat


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\xff", b" "])))
def test_lines_are_split_as_a_loop_would(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    stripped = [line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line.removesuffix(b"\r")
                for line in text.split(b"\n")]  # fmt: skip
    assert texts_of(split_lines(np.frombuffer(text, np.uint8))) == [line for line in stripped if line]


def test_raw_text_is_read_as_lines(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"three\r\n\r\nfour\xff")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"\none\ntwo\n", mtime=0))
    (tmp_path / "c.txt").write_bytes(b"\n\n")
    (tmp_path / "other.csv").write_bytes(b"no")
    whole = open_input(tmp_path)
    assert texts_of(whole.read(0, whole.items)) == [b"one", b"two", b"three", b"four\xff"]
    assert (whole.kind, whole.schema["files"][0]) == ("lines", str(tmp_path / "a.txt.gz"))
    assert texts_of(open_input(tmp_path / "b.txt", index=1, parallelism=2).read(0, 1)) == [b"four\xff"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"\n\r\n", "found no line"),
        ("a.txt.gz", gzip.compress(b"one\n", mtime=0)[:-9], "cannot be read"),
        ("a.txt.gz", b"one\n", "cannot be read"),
        ("a.csv", b"one\n", "not a directory of shards"),
    ],
)
def test_raw_text_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        open_input(tmp_path / name)


def edited(directory: Path, edit: Callable[[dict], object]) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    edit(manifest)
    (directory / "manifest.json").write_text(json.dumps(manifest))


def bounds_changed(directory: Path) -> None:
    bounds = np.load(directory / "part-00001.offsets.npy")
    bounds[3] = 10**6
    np.save(directory / "part-00001.offsets.npy", bounds)


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "other format": ("records", lambda d: edited(d, lambda m: m.update(format="x")), "found 'x'"),
    "other version": ("records", lambda d: edited(d, lambda m: m.update(version=2)), "expected version 1, found 2"),
    "no dtype": ("records", lambda d: edited(d, lambda m: m.pop("dtype")), "expected dtype to describe records"),
    "odd dtype": ("records", lambda d: edited(d, lambda m: m.update(dtype=[["a", "<x9"]])), "to describe records"),
    "objects": ("records", lambda d: edited(d, lambda m: m.update(dtype=[["a", "O"]])), "to name plain fields"),
    "other fields": ("records", lambda d: edited(d, lambda m: m["dtype"].pop()), "expected records of time_ns, source"),
    "wrong sum": ("records", lambda d: edited(d, lambda m: m.update(rows=26)), "expected rows to be 25"),
    "missing": ("records", lambda d: (d / "part-00001.npy").unlink(), "part-00001.npy is missing"),
    "cut": ("records", lambda d: (d / "part-00002.npy").write_bytes(b"x"), "part-00002.npy: expected 272 bytes"),
    "no offsets": ("lines", lambda d: edited(d, lambda m: m["shards"][1].pop("offsets")), r"shards\[1\].offsets"),
    "offsets missing": ("lines", lambda d: (d / "part-00000.offsets.npy").unlink(), "offsets.npy is missing"),
    "odd offsets": ("lines", bounds_changed, "part-00001.offsets.npy: expected offsets that rise from 0 to"),
    "fewer rows": (
        "lines",
        lambda d: edited(d, lambda m: (m["shards"][0].update(rows=9), m.update(rows=24))),
        r"expected <i8 of shape \(10,\)",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(damage: str, request: pytest.FixtureRequest) -> None:
    kind, spoil, message = DAMAGES[damage]
    directory = request.getfixturevalue(kind)
    spoil(directory)
    with pytest.raises(DataError, match=message) as caught:
        open_input(directory)
    assert str(directory) in str(caught.value) and caught.value.remedy


@pytest.mark.parametrize("numbers", [(0, None, 0, 1), (1, 0, 0, 1), (1, None, 1, 1), (1, None, -1, 1)])
def test_numbers_out_of_range_are_refused(records: Path, numbers: tuple[int, int | None, int, int]) -> None:
    with pytest.raises(ConfigError):
        open_input(records, *numbers)
