"""Arrays, tables and chunks of this process as shards, and what is refused."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from scipy import sparse

import riprap
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.inputs.shards import open_shards

X = np.arange(30.0).reshape(10, 3)
Y = np.array([0, 1] * 5)
TABLE = {"a": [1, 2, None], "y": [True, False, True], "b": [0.5, 1.5, 2.5]}


def everything(path: Path) -> np.ndarray:
    shards = open_shards(path, Checks(verify=True))
    return shards.read(0, shards.rows)


@pytest.mark.parametrize("data", [X, X.astype(np.float32), X.astype(int), sparse.csr_matrix(X), np.asfortranarray(X)])
def test_a_matrix_with_labels(data: Any, tmp_path: Path) -> None:
    counts = riprap.write_shards(tmp_path / "out", data, label=Y, shard_rows=4)
    assert counts == {"rows": 10, "shards": 3}
    np.testing.assert_array_equal(everything(tmp_path / "out"), np.column_stack([Y, X]))
    shards = open_shards(tmp_path / "out")
    assert (shards.columns, shards.label) == (["label", "x1", "x2", "x3"], "label")
    assert [shard["rows"] for shard in shards.manifest["shards"]] == [4, 4, 2]


def test_a_label_by_its_name(tmp_path: Path) -> None:
    riprap.write_shards(tmp_path / "a", (X, Y), label="y", columns=["p", "q", "r"])
    assert open_shards(tmp_path / "a").columns == ["y", "p", "q", "r"]
    riprap.write_shards(tmp_path / "b", X, label="q", columns=["p", "q", "r"])
    assert open_shards(tmp_path / "b").label == "q"
    np.testing.assert_array_equal(everything(tmp_path / "b"), X)


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_tables_of_all_makers(kind: Any, tmp_path: Path) -> None:
    riprap.write_shards(tmp_path / "out", kind(TABLE), label="y")
    assert open_shards(tmp_path / "out").columns == ["a", "y", "b"]
    np.testing.assert_array_equal(everything(tmp_path / "out"), [[1, 1, 0.5], [2, 0, 1.5], [np.nan, 1, 2.5]])
    assert open_shards(tmp_path / "out").manifest["shards"][0]["finite"] is False
    riprap.write_shards(tmp_path / "pair", (kind({"a": [1, 2], "b": [3, 4]}), [0, 1]), label="y")
    np.testing.assert_array_equal(everything(tmp_path / "pair"), [[0, 1, 3], [1, 2, 4]])


def test_the_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    riprap.write_shards(tmp_path / "out", pandas.DataFrame(TABLE).iloc[[2, 0, 1]], label="y")
    assert open_shards(tmp_path / "out").columns == ["a", "y", "b"]


@pytest.mark.parametrize("cuts", [[3], [1, 2, 7], [4, 8], []])
def test_chunks_make_the_same_shards_as_the_whole(cuts: list[int], tmp_path: Path) -> None:
    chunks = zip(np.split(X, cuts), np.split(Y, cuts))
    riprap.write_shards(tmp_path / "chunks", chunks, shard_rows=4)
    riprap.write_shards(tmp_path / "whole", (X, Y), shard_rows=4)
    for file in (tmp_path / "whole").iterdir():
        assert file.read_bytes() == (tmp_path / "chunks" / file.name).read_bytes()


def test_memory_is_that_of_a_shard_however_many_chunks(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        riprap.write_shards(
            tmp_path / "out", ((np.ones((1000, 10)), np.ones(1000)) for _ in range(200)), shard_rows=5000
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * 1000 * 11 * 8 / 4, "a quarter of all rows"


CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "text": (pandas.DataFrame({"a": ["x"], "b": [1], "c": ["z"]}), {"label": "b"}, r"column a \(.*string\), c \("),
    "mixed": (pandas.DataFrame({"a": [1, "x"], "y": [0, 1]}), {"label": "y"}, "DataFrame .* failed for column a"),
    "doubled": (pandas.DataFrame([[1, 2]], columns=["a", "a"]), {"label": "a"}, "DataFrame .*: Duplicate column names"),
    "sparse": (pandas.DataFrame.sparse.from_spmatrix(sparse.eye(2)), {"label": [0, 1]}, "DataFrame .*: Sparse pandas"),
    "a series": (pandas.Series([1.0, 2.0]), {}, "a Series cannot be read as a table"),
    "no label": (pandas.DataFrame(TABLE), {"label": "z"}, "no column 'z' for the label, but a, y, b"),
    "one dimension": (np.ones(3), {}, r"shape \(3,\); expected numbers, rows x features"),
    "objects": (np.array([["a"]]), {}, "expected numbers"),
    "labels": (X, {"label": Y[:4]}, r"shape \(4,\); expected 10 numbers"),
    "names": ((X, Y), {"columns": ["a"]}, "columns names 1; the matrix has 3"),
    "names of a table": (
        pandas.DataFrame(TABLE),
        {"label": "y", "columns": ["a", "y"]},
        "columns names a, y; a table has names of its own",
    ),
    "chunks that differ": ([(X, Y), (X[:, :2], Y)], {}, "chunk 1 has the columns label, x1, x2; the first"),
    "no chunk": (iter([]), {}, "has no rows"),
    "no rows": ((X[:0], Y[:0]), {}, "has no rows"),
    "a file name": ("x.csv", {}, "a str is no data for shards"),
    "rows": ([[1, 2], [3, 4]], {}, "a chunk is a list, not a matrix"),
    "wide": (sparse.csr_matrix((2, 5000)), {"label": [0, 1]}, "5,000 columns would be dense"),
    "shard_rows": ((X, Y), {"shard_rows": 0}, "shard_rows is 0"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_table_of_numbers_is_refused_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    data, options, message = CASES[case]
    with pytest.raises(riprap.DataError, match=message) as caught:
        riprap.write_shards(tmp_path / "out", data, **options)
    assert caught.value.remedy
    assert [*tmp_path.iterdir()] == []


def test_a_directory_is_never_overwritten(tmp_path: Path) -> None:
    riprap.write_shards(tmp_path / "out", (X, Y))
    with pytest.raises(riprap.DataError, match="already exists"):
        riprap.write_shards(tmp_path / "out", (X, Y))


@pytest.mark.parametrize(
    ("data", "columns", "words"),
    [
        ((X, Y), ["label", "p", "q"], "chunk 0 has the columns label, label, p, q"),
        ((pandas.DataFrame({"label": Y, "a": Y}), Y), None, "chunk 0 has the columns label, label, a"),
        (X, ["label", "p", "p"], "chunk 0 has the columns label, p, p"),
        ((X, Y), [1, 2, 3], "chunk 0 has the columns label, 1, 2, 3"),
    ],
    ids=["label and feature", "label in the table of features", "two features", "numbers"],
)
def test_names_by_which_no_job_could_read_the_columns_are_refused(
    data: Any, columns: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(riprap.DataError, match=words):
        riprap.write_shards(tmp_path / "out", data, columns=columns)
    assert list(tmp_path.iterdir()) == []


def test_what_is_masked_is_nan(tmp_path: Path) -> None:
    features, labels = np.ma.masked_array(X, mask=X == 4), np.ma.masked_array(Y, mask=Y == 1)
    riprap.write_shards(tmp_path / "out", (features, labels))
    expected = np.column_stack([np.where(Y == 1, np.nan, Y), np.where(X == 4, np.nan, X)])
    np.testing.assert_array_equal(everything(tmp_path / "out"), expected)
