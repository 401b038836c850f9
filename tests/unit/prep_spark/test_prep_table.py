"""`riprap prep table` end to end on a real Spark: every format gives the same shards, and errors are told by place."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from riprap.operators.inputs.job_input import open_input
from riprap.operators.inputs.shard_checks import Checks
from riprap.operators.inputs.shards import open_shards
from riprap.prep_spark import context, higgs, table
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.layout import held_back

DATA = Path(__file__).parents[2] / "data"
Job = Callable[..., dict[str, Any]]


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def everything(path: Path) -> np.ndarray:
    shards = open_shards(path, Checks(verify=True))
    return shards.read(0, shards.rows)


def small_splits(monkeypatch: Any, size: int) -> None:
    """Cut files into splits of so many bytes, whoever reads them."""
    monkeypatch.setattr("riprap.prep_spark.text_files.SPLIT_BYTES", size)
    monkeypatch.setitem(context.SESSION_SETTINGS, "spark.sql.files.maxPartitionBytes", str(size))
    monkeypatch.setitem(context.SESSION_SETTINGS, "spark.sql.files.openCostInBytes", str(size))


def numbers(first: int, count: int) -> list[str]:
    return [f"{number},{number % 7 / 4},{number % 2}" for number in range(first, first + count)]


@pytest.mark.parametrize("way", ["read by ourselves", "read by Spark"])
def test_rows_keep_the_order_of_files_splits_and_lines(way: str, job: Job, tmp_path: Path, monkeypatch: Any) -> None:
    if way == "read by Spark":
        monkeypatch.setattr("riprap.prep_spark.sources.are_local", lambda source: False)
    small_splits(monkeypatch, 4096)
    starts = itertools.accumulate([2500, 700, 0, 1], initial=0)
    for (name, count), first in zip((("a.csv", 2500), ("b.csv.gz", 700), ("c.csv", 0), ("d.csv", 1)), starts):
        write(tmp_path / "raw" / name, ["id,x,y", *numbers(first, count)])
    assert (tmp_path / "raw" / "a.csv").stat().st_size > 4 * 4096, "several splits"
    counts = job(table, input=str(tmp_path / "raw" / "*.csv*"), label="y", shard_rows=1000)
    assert (counts["read"], counts["kept"], counts["rows"], counts["shards"]) == (3201, 3201, {"all": 3201}, 4)
    made = open_shards(tmp_path / "out", Checks(verify=True))
    assert (made.columns, made.label) == (["y", "id", "x"], "y")
    assert [Path(file).name for file in made.manifest["source"]["files"]] == ["a.csv", "b.csv.gz", "c.csv", "d.csv"]
    ids = np.arange(3201)
    np.testing.assert_array_equal(everything(tmp_path / "out"), np.column_stack([ids % 2, ids, ids % 7 / 4]))
    lines = (tmp_path / "raw" / "a.csv").read_text().splitlines()
    write(tmp_path / "raw" / "a.csv", [*lines[:2000], "1,x,0", *lines[2000:]])
    with pytest.raises(PrepError, match=r"raw/a\.csv, line 2001, column 2 \(x\): expected a number, found 'x'"):
        job(table, input=str(tmp_path / "raw" / "*.csv*"), label="y", out=str(tmp_path / "again"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "raw"]


@pytest.mark.parametrize("way", ["read by ourselves", "read by Spark"])
def test_the_first_files_may_have_a_header_alone(way: str, job: Job, tmp_path: Path, monkeypatch: Any) -> None:
    """Spark writes such a file where its first partition is empty."""
    if way == "read by Spark":
        monkeypatch.setattr("riprap.prep_spark.sources.are_local", lambda source: False)
    for name, lines in (("a", ["x,y"]), ("b", ["", "x,y"]), ("c", ["x,y", "7,no", "8,yes"]), ("d", ["x,y", "9,no"])):
        write(tmp_path / "raw" / f"{name}.csv", lines)
    counts = job(table, label="y")
    assert (counts["read"], counts["kept"], counts["dropped"]) == (3, 3, {})
    assert everything(tmp_path / "out").tolist() == [[0, 7], [1, 8], [0, 9]]


def test_a_file_like_higgs_with_its_label_last_is_one_command(job: Job, tmp_path: Path, higgs_raw: Path) -> None:
    rows = [line.split(",") for line in gzip.decompress(higgs_raw.read_bytes()).decode().splitlines()]
    lines = [",".join([*higgs.COLUMNS[1:], "label"]), *(",".join([*row[1:], row[0]]) for row in rows)]
    write(tmp_path / "raw", lines)
    job(higgs, input=str(higgs_raw), holdout=0.2)
    job(table, label="label", holdout=0.2, out=str(tmp_path / "ours"))
    for part in ("train", "test"):
        np.testing.assert_array_equal(everything(tmp_path / "ours" / part), everything(tmp_path / "out" / part))
        assert (tmp_path / "ours" / part / "transform.json").exists()


CELLS = [
    {"age": 30, "job": "clerk", "since": "2020-01-01", "late": "yes"},
    {"age": None, "job": "nurse", "since": "2020-01-02", "late": "no"},
    {"age": 50, "job": None, "since": "2020-01-03", "late": "yes"},
    {"age": 70, "job": "smith", "since": "2020-01-04", "late": "no"},
] * 5  # fmt: skip
OPTIONS: dict[str, Any] = {"label": "late", "missing": "flag", "scale": "minmax"}


def write_cells(folder: Path, cells: list[dict[str, Any]]) -> None:
    """The same table as CSV, as JSON lines and as Parquet."""
    folder.mkdir()
    text = [",".join("" if value is None else str(value) for value in row.values()) for row in cells]
    write(folder / "x.csv", [",".join(CELLS[0]), *text])
    write(folder / "x.json", [json.dumps(row) for row in cells])
    session = SparkSession.builder.getOrCreate()
    session.createDataFrame([tuple(row.values()) for row in cells], ",".join(  # type: ignore[type-var]
        f"{name} {kind}" for name, kind in zip(CELLS[0], ("int", "string", "string", "string")))
    ).coalesce(1).write.parquet(str(folder / "x.parquet"))  # fmt: skip


@pytest.fixture
def cells(spark: Any, tmp_path: Path) -> Path:
    write_cells(tmp_path / "raw", CELLS)
    return tmp_path / "raw"


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_every_format_gives_the_same_shards(kind: str, job: Job, tmp_path: Path, cells: Path) -> None:
    counts = job(table, input=str(cells / f"x.{kind}"), format=kind, **OPTIONS)
    assert counts["classes"] == ["no", "yes"]
    made = open_shards(tmp_path / "out")
    names = ["late", "age", "age_missing", "job=clerk", "job=nurse", "job=smith", "job_missing", "since"]
    assert made.columns == names
    expected = [[1, 0, 0, 1, 0, 0, 0, 0], [0, 0.5, 1, 0, 1, 0, 0, 1 / 3],
                [1, 0.5, 0, 0, 0, 0, 1, 2 / 3], [0, 1, 0, 0, 0, 1, 0, 1]]  # fmt: skip
    np.testing.assert_allclose(everything(tmp_path / "out"), np.tile(expected, (5, 1)))


def test_new_rows_are_treated_alike(job: Job, tmp_path: Path, cells: Path) -> None:
    job(table, input=str(cells / "x.csv"), **OPTIONS)
    new = [{"age": 90, "job": "baker", "since": "2020-01-04", "late": "no"}, CELLS[0]]
    write_cells(tmp_path / "new", new)
    like = {"like": str(tmp_path / "out")}
    for kind in ("csv", "json", "parquet"):
        out = str(tmp_path / kind)
        counts = job(table, input=str(tmp_path / "new" / f"x.{kind}"), format=kind, out=out, **like)
        assert counts["unseen"] == {"job": 1}
        assert everything(tmp_path / kind).tolist() == [[0, 1.5, 0, 0, 0, 0, 0, 1], [1, 0, 0, 1, 0, 0, 0, 0]]
        ours, first = tmp_path / kind / "transform.json", tmp_path / "out" / "transform.json"
        assert ours.read_text() == first.read_text()
    write(tmp_path / "new.csv", ["age,late", "3,yes"])
    with pytest.raises(PrepError, match="has no column job, since"):
        job(table, input=str(tmp_path / "new.csv"), out=str(tmp_path / "no"), **like)


def test_parquet_keeps_the_order_of_its_files_whatever_their_sizes(job: Job, tmp_path: Path, spark: Any) -> None:
    session = SparkSession.builder.getOrCreate()
    for name, first, last in (("a", 0, 10), ("b", 10, 2000), ("c", 2000, 2300)):
        rows = session.range(first, last, 1, 1).selectExpr("id", "id % 2 as y")
        rows.write.mode("append").parquet(str(tmp_path / "raw" / name))
    job(table, input=str(tmp_path / "raw" / "*"), format="parquet", label="y")
    assert everything(tmp_path / "out")[:, 1].tolist() == [*range(2300)]


def test_hashed_and_sparse_records(job: Job, tmp_path: Path, cells: Path) -> None:
    arguments = {"input": str(cells / "x.csv"), "label": "late", "missing": "mean"}
    job(table, **arguments, buckets=64)
    whole = open_input(tmp_path / "out")
    (records,) = whole.read(0, whole.items)
    assert records.dtype.names == ("label", "indexes", "values") and records["indexes"].shape == (20, 3)
    assert records["values"][:4].tolist()[1:3] == [[50, 1, 1577923200], [50, 0, 1578009600]]
    assert whole.schema["features"] == 64


def test_libsvm_is_dense_when_it_is_narrow_and_sparse_when_not(job: Job, tmp_path: Path) -> None:
    raw = DATA / "a9a" / "a9a_first2k.libsvm.gz"
    job(table, input=str(raw), format="libsvm")
    made = everything(tmp_path / "out")
    lines = gzip.decompress(raw.read_bytes()).decode().splitlines()
    for row, line in zip(made, lines, strict=True):
        label, *pairs = line.split()
        expected = np.zeros(made.shape[1])
        expected[0] = float(label)
        for pair in pairs:
            index, value = pair.split(":")
            expected[int(index)] = float(value)
        assert row.tolist() == expected.tolist()
    write(tmp_path / "wide", ["1 5000:2 3:1", "0 1:4"])
    job(table, input=str(tmp_path / "wide"), format="libsvm", out=str(tmp_path / "sparse"))
    whole = open_input(tmp_path / "sparse")
    (records,) = whole.read(0, 2)
    assert records["indexes"].tolist() == [[4999, 2], [0, 0]] and records["values"].tolist() == [[2, 1], [4, 0]]
    assert whole.schema["features"] == 5000
    write(tmp_path / "more", ["1 6000:2 4:1 2:1"])
    like = {"like": str(tmp_path / "sparse"), "out": str(tmp_path / "like")}
    assert job(table, input=str(tmp_path / "more"), format="libsvm", **like)["unseen"] == {"features": 1}


def test_rows_are_ordered_by_a_column(job: Job, tmp_path: Path, monkeypatch: Any) -> None:
    small_splits(monkeypatch, 2048)
    monkeypatch.setattr("riprap.prep_spark.ordering.RUN_ROWS", 300)
    rng = np.random.default_rng(1)
    times, values = rng.integers(-50, 50, 1000), np.arange(1000)
    write(tmp_path / "raw", ["t,x,y", *(f"{t},{x},1" for t, x in zip(times, values))])
    job(table, label="y", features=["x"], order="t")
    assert open_shards(tmp_path / "out").columns == ["y", "x"]
    assert everything(tmp_path / "out")[:, 1].tolist() == values[np.argsort(times, kind="stable")].tolist()


@pytest.mark.parametrize("options", [{"missing": "drop"}, {"bad_rows": "drop", "missing": "drop"}])
def test_categories_are_those_of_rows_that_are_kept(options: dict[str, Any], job: Job, tmp_path: Path) -> None:
    bad = ["maybe,f", "no,g,x"] if "bad_rows" in options else []
    write(tmp_path / "raw", ["y,c,x", "yes,b,1", "perhaps,d,", *bad, "no,a,2", "yes,b,3"])
    counts = job(table, label="y", numeric=("x",), **options)
    assert (counts["kept"], counts["classes"]) == (3, ["no", "yes"])
    assert open_shards(tmp_path / "out").columns == ["y", "c=a", "c=b", "x"]
    assert everything(tmp_path / "out").tolist() == [[1, 0, 1, 1], [0, 1, 0, 2], [1, 0, 1, 3]]


def test_scales_are_those_of_the_rows_to_train_on(job: Job, tmp_path: Path) -> None:
    write(tmp_path / "raw", ["x,y", *(f"{number**2},{number % 2}" for number in range(500))])
    job(table, label="y", scale="standard", holdout=0.3, seed=4)
    made, squares = everything(tmp_path / "out" / "train")[:, 1], np.arange(500.0) ** 2
    assert abs(made.mean()) < 1e-9 and abs(made.std() - 1) < 1e-9
    train = squares[~held_back(0, 500, 0.3, 4)]
    np.testing.assert_allclose(
        everything(tmp_path / "out" / "test")[:, 1],
        (squares[held_back(0, 500, 0.3, 4)] - train.mean()) / train.std(),
    )


def test_a_dry_run_shows_the_columns_and_writes_nothing(job: Job, tmp_path: Path, cells: Path) -> None:
    told: list[str] = []
    shown = job(table, input=str(cells / "x.csv"), label="late", features=["age", "job"], dry_run=True,
                report=told.append)  # fmt: skip
    kinds = [(row["column"], row["type"], row["becomes"]) for row in shown["columns"]]
    assert kinds == [
        ("age", "number", "number"), ("job", "category", "0 or 1 for each category"),
        ("since", "date", "left out"), ("late", "category", "label, its classes numbered"),
    ]  # fmt: skip
    assert [row["missing"] for row in shown["columns"]] == ["25 %", "25 %", "0 %", "0 %"]
    assert "clerk, nurse, smith" in told[-1]
    assert not (tmp_path / "out").exists()


def test_inputs_that_are_no_tables_end_in_one_message(job: Job, tmp_path: Path, cells: Path) -> None:
    write(tmp_path / "empty.csv", [])
    write(tmp_path / "header.csv", ["a,b"])
    write(tmp_path / "twice.csv", ["a,b,a", "1,2,3"])
    write(tmp_path / "nested.json", ['{"a": [1], "y": 1}'])
    (tmp_path / "utf16.csv").write_bytes("a,y\n1,2\n".encode("utf-16"))
    write(tmp_path / "late.csv", ["a,y", *["1,2"] * 3000, "1"])
    write(tmp_path / "large.csv", ["a,y", "1e39,1", "x,2"])
    write(tmp_path / "large.svm", ["1 9000:1e39"])
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("empty.csv", {}, "the input is empty: .*empty.csv"),
        ("header.csv", {}, "header.csv has a header and no row"),
        ("twice.csv", {}, r"twice.csv, line 1: .* named a \(column 3\)"),
        ("utf16.csv", {}, "utf16.csv, line 1: expected UTF-8, found UTF-16"),
        ("late.csv", {}, "late.csv, line 3002, column 1: expected 2 columns separated by commas, found 1"),
        ("late.csv", {"label": ""}, "which column is the label. There are a, y"),
        ("late.csv", {"label": "z"}, "--label z: there is no such column"),
        ("nested.json", {"format": "json"}, r"cannot hold column a \(nested value\)"),
        ("large.svm", {"format": "libsvm", "label": ""}, r"column values has the number 1e\+39"),
        ("large.csv", {"numeric": ("a",), "bad_rows": "drop", "one_hot": True}, r"column a has the number 1e\+39"),
        ("late.csv", {"format": "parquet"}, "not Parquet"),
        ("missing.csv", {}, "missing.csv does not exist"),
        ("late.csv", {"format": "avro"}, "Spark has no reader of Avro"),
        ("late.csv", {"format": "delta"}, "Spark has no reader of Delta"),
        ("no_such_table", {"format": "table"}, "Spark knows no table"),
        ("late.csv", {"settings": {"spark.master": "local[1]"}}, "cannot be given spark.master"),
    ]
    for name, options, message in cases:
        source = name if options.get("format") == "table" else str(tmp_path / name)
        with pytest.raises(PrepError, match=message) as caught:
            job(table, **{"input": source, "label": "y"} | options)
        assert caught.value.remedy, name
    assert not (tmp_path / "out").exists()


def test_a_catalogues_table_is_read(job: Job, tmp_path: Path, spark: Any) -> None:
    session = SparkSession.builder.getOrCreate()
    session.range(10).selectExpr("id", "id % 2 as y").createOrReplaceGlobalTempView("numbers")
    job(table, input="global_temp.numbers", format="table", label="y")
    assert sorted(everything(tmp_path / "out").tolist()) == sorted([float(i % 2), float(i)] for i in range(10))
