"""The reader of shards, on directories that the writer made and tests then damaged."""

import errno
import json
import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import DataError
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.inputs.shards import Shards, open_shards
from riprap.prep_spark.layout import plan_shards
from riprap.prep_spark.shards import Assembly, Source, write_manifest, write_shard

ROWS, COLUMNS, SHARD_ROWS = 25, 3, 10
MATRIX = np.arange(ROWS * COLUMNS, dtype=float).reshape(ROWS, COLUMNS)
FIELDS = {"columns": ["label", "a", "b"], "label": "label", "dataset": "toy", "split": "all"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    MATRIX.tofile(tmp_path / "raw.f8")
    out = tmp_path / "shards"
    out.mkdir()
    assembly = Assembly((Source(str(tmp_path / "raw.f8"), ROWS),), COLUMNS, str(out), 0.0, 1, None)
    write_manifest(str(out), [write_shard(plan, assembly) for plan in plan_shards(ROWS, 0.0, 1, SHARD_ROWS)], FIELDS)
    return out


def test_what_was_written_is_read(directory: Path) -> None:
    shards = open_shards(directory, Checks(verify=True))
    assert (shards.rows, shards.columns, shards.label) == (ROWS, ["label", "a", "b"], "label")
    assert shards.manifest["dataset"] == "toy"
    assert sorted(path.name for path in directory.iterdir())[1:] == [f"part-0000{i}.npy" for i in range(3)]
    np.testing.assert_array_equal(shards.read(0, ROWS), MATRIX)


def test_every_range_is_right_and_copied_only_across_shards(directory: Path) -> None:
    shards = open_shards(directory)
    for start in range(ROWS + 1):
        for stop in range(start, ROWS + 1):
            rows = shards.read(start, stop)
            np.testing.assert_array_equal(rows, MATRIX[start:stop])
            assert rows.shape == (stop - start, COLUMNS)
            assert not rows.flags.writeable
            crosses = start < stop and start // SHARD_ROWS != (stop - 1) // SHARD_ROWS
            assert (rows.base is None) == crosses or start == stop


def test_views_outlive_the_release_of_their_pages(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riprap.operators.inputs.shards.RESIDENT_BYTES", 0)
    shards = open_shards(directory)
    views = [shards.read(start, start + 4) for _ in range(3) for start in range(ROWS - 4)]
    for number, view in enumerate(views):
        start = number % (ROWS - 4)
        np.testing.assert_array_equal(view, MATRIX[start : start + 4])


def test_pages_read_long_ago_leave_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.ones((200_000, COLUMNS))
    matrix.tofile(tmp_path / "raw.f8")
    out = tmp_path / "shards"
    out.mkdir()
    assembly = Assembly((Source(str(tmp_path / "raw.f8"), len(matrix)),), COLUMNS, str(out), 0.0, 1, None)
    write_manifest(str(out), [write_shard(plan, assembly) for plan in plan_shards(len(matrix), 0.0, 1, 10**6)], FIELDS)
    monkeypatch.setattr("riprap.operators.inputs.shards.RESIDENT_BYTES", 1 << 19)
    shards = open_shards(out)
    assert sum(shards.read(start, start + 1000).sum() for start in range(0, len(matrix), 1000)) == matrix.sum()
    assert _resident_kib(out / "part-00000.npy") < matrix.nbytes // 1024 // 2


def _resident_kib(path: Path) -> int:
    """How much of a file this process has mapped in."""
    mapping, resident = "", 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        mapping = line if "-" in line.split()[0] else mapping
        if line.startswith("Rss:") and mapping.endswith(str(path)):
            resident += int(line.split()[1])
    return resident


@pytest.mark.parametrize("bounds", [(-1, 3), (3, 2), (0, ROWS + 1)])
def test_rows_outside_are_an_error(directory: Path, bounds: tuple[int, int]) -> None:
    with pytest.raises(IndexError):
        open_shards(directory).read(*bounds)


def test_data_starts_at_a_multiple_of_64_bytes(directory: Path) -> None:
    for file in directory.glob("*.npy"):
        assert np.load(file, mmap_mode="r").offset % 64 == 0


def test_threads_may_read_at_once(directory: Path) -> None:
    shards = open_shards(directory)

    def check(seed: int) -> int:
        rng = np.random.default_rng(seed)
        for start, stop in np.sort(rng.integers(0, ROWS + 1, (500, 2)), axis=1).tolist():
            np.testing.assert_array_equal(shards.read(start, stop), MATRIX[start:stop])
        return seed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(check, range(4))) == [0, 1, 2, 3]


def edited(directory: Path, edit: Callable[[dict], None]) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    edit(manifest)
    (directory / "manifest.json").write_text(json.dumps(manifest))


def replaced(file: Path, old: bytes, new: bytes) -> None:
    data = file.read_bytes()
    assert old in data
    file.write_bytes(data.replace(old, new, 1))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda d: (d / "manifest.json").unlink(), "has no manifest.json"),
    "not JSON": (lambda d: replaced(d / "manifest.json", b'"dtype":', b'"dtype"'), "manifest.json, line 4, column"),
    "not UTF-8": (lambda d: (d / "manifest.json").write_bytes(b"\xff\xfe"), "manifest.json cannot be read"),
    "nested without end": (lambda d: (d / "manifest.json").write_text("[" * 100_000), "nested without end"),
    "a number without end": (lambda d: (d / "manifest.json").write_text("1" * 5000), "manifest.json cannot be read"),
    "a list": (lambda d: (d / "manifest.json").write_text("[]"), 'expected an object with "format"'),
    "other format": (lambda d: edited(d, lambda m: m.update(format="x")), 'expected an object with "format"'),
    "other version": (lambda d: edited(d, lambda m: m.update(version=2)), "expected version 1, found 2"),
    "other dtype": (lambda d: edited(d, lambda m: m.update(dtype="<f4")), "expected dtype '<f8', found '<f4'"),
    "no columns": (lambda d: edited(d, lambda m: m.update(columns=[])), "expected columns to be a list"),
    "no label": (lambda d: edited(d, lambda m: m.pop("label")), "expected label to be one of the columns"),
    "no shards": (lambda d: edited(d, lambda m: m.update(shards=[])), "at least one shard"),
    "odd shard": (lambda d: edited(d, lambda m: m["shards"].append(3)), r"shards\[3\]: expected an object"),
    "odd entry": (lambda d: edited(d, lambda m: m["shards"][1].pop("crc32")), r"shards\[1\]: expected crc32"),
    "a bool": (lambda d: edited(d, lambda m: m["shards"][1].update(rows=True)), r"shards\[1\]: expected rows"),
    "other folder": (lambda d: edited(d, lambda m: m["shards"][0].update(file="../x.npy")), "without folders"),
    "wrong sum": (lambda d: edited(d, lambda m: m.update(rows=26)), "expected rows to be 25"),
    "missing shard": (lambda d: (d / "part-00001.npy").unlink(), "part-00001.npy is missing"),
    "truncated": (
        lambda d: (d / "part-00001.npy").write_bytes(b"\x93NUMPY"),
        "part-00001.npy: expected 368 bytes, found 6",
    ),
    "no .npy": (lambda d: (d / "part-00000.npy").write_bytes(bytes(368)), "part-00000.npy is not a readable .npy file"),
    "other shape": (lambda d: replaced(d / "part-00000.npy", b"(10, 3)", b"(3, 10)"), r"of shape \(10, 3\) in C order"),
    "other order": (lambda d: replaced(d / "part-00000.npy", b"False", b"True "), "in C order"),
    "other type": (lambda d: replaced(d / "part-00000.npy", b"<f8", b"<i8"), "found <i8"),
    "more columns": (lambda d: edited(d, lambda m: m["columns"].append("c")), r"expected <f8 of shape \(10, 4\)"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_directory_is_refused_by_name(directory: Path, damage: str) -> None:
    act, message = DAMAGES[damage]
    act(directory)
    with pytest.raises(DataError, match=message) as caught:
        open_shards(directory)
    assert str(directory) in str(caught.value)
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_a_shard_too_many_for_this_process_is_not_called_damaged(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, **_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)

    monkeypatch.setattr(np, "load", refuse)
    with pytest.raises(DataError, match=r"part-00000\.npy cannot be opened: Too many open files") as caught:
        open_shards(directory)
    assert "ulimit" in caught.value.remedy


def test_all_problems_of_a_manifest_come_at_once_with_field_expected_and_found(directory: Path) -> None:
    def damage(manifest: dict) -> None:
        manifest |= {"dtype": "<f4", "columns": ["a", "b", "a"], "label": "a"}
        manifest["shards"][0] |= {"bytes": "many", "rows": 0}
        manifest["shards"][2]["file"] = "../x.npy"

    edited(directory, damage)
    with pytest.raises(DataError) as caught:
        open_shards(directory)
    assert str(caught.value).splitlines()[:-1] == [
        f"{directory}/manifest.json has 5 problems:",
        "  expected dtype '<f8', found '<f4'",
        "  expected columns to have a name each, found a more than once",
        "  shards[0]: expected bytes to be of type int, found 'many'",
        "  shards[0]: expected rows to be of type int and above 0, found 0",
        "  shards[2]: expected a file name without folders; found '../x.npy'",
    ]


def test_a_flipped_bit_is_found_when_asked(directory: Path) -> None:
    data = bytearray((directory / "part-00002.npy").read_bytes())
    data[-5] ^= 4
    (directory / "part-00002.npy").write_bytes(data)
    assert open_shards(directory).rows == ROWS
    with pytest.raises(DataError, match=r"part-00002\.npy: expected checksum"):
        open_shards(directory, Checks(verify=True))


def test_the_parts_of_a_split_directory_are_named(directory: Path) -> None:
    (directory.parent / "train").mkdir()
    (directory / "manifest.json").rename(directory.parent / "train" / "manifest.json")
    with pytest.raises(DataError, match=r"name one of its parts: .*train"):
        open_shards(directory.parent)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_shards_of_any_sizes_read_as_one_matrix(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    matrix = np.arange(total * 2.0).reshape(total, 2)
    pieces = np.split(matrix, np.cumsum(sizes)[:-1])
    shards = Shards({"columns": ["a", "b"], "label": "a", "rows": total}, pieces, [mmap.mmap(-1, 1) for _ in pieces])
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    np.testing.assert_array_equal(shards.read(start, stop), matrix[start:stop])
