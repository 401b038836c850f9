"""Splits of every format as the workers read them: rows, counts, and the fault that each bad line is refused with."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from riprap.prep_spark.columnar import ColumnarReader
from riprap.prep_spark.columns import Found, Layout, Wishes, choose
from riprap.prep_spark.delimited import DelimitedReader
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.fragments import Fragment, Task, load_codes, read_split, refuse_faults
from riprap.prep_spark.frames import Split
from riprap.prep_spark.inference import infer_delimited
from riprap.prep_spark.json_lines import JsonReader
from riprap.prep_spark.libsvm import LibsvmReader, extent
from riprap.prep_spark.reading import Lines, Reader, Reading, lines_of
from riprap.prep_spark.tables import UNSEEN

MISSING = frozenset({b"", b"NA"})
FOUND = [Found("age", "number"), Found("job", "category"), Found("since", "date"), Found("late", "number")]
LAYOUT = choose(FOUND, Wishes("late"))
HEADER = b"age,job,since,late"
SPLIT = Split("file:/data/x.csv", 0, 0)


def reading(policy: str = "fail", layout: Layout = LAYOUT, **other: object) -> Reading:
    return Reading(layout, MISSING, policy, **{"buckets": None, "categories_max": 9} | other)  # type: ignore[arg-type]


def batches(lines: Sequence[bytes], size: int = 3) -> list[Lines]:
    """Lines as Spark hands them over; slices, so that offsets do not begin at 0."""
    whole = pa.record_batch({"value": pa.array([b"before", *lines], pa.binary())}).slice(1)
    return [lines_of(whole.slice(start, size)) for start in range(0, len(lines), size)]


def read(
    reader: Reader, made: Reading | None, parts: Sequence[object], path: Path, drop: bool = False,
    split: Split = SPLIT,
) -> tuple[Fragment, np.ndarray]:  # fmt: skip
    fragment = read_split(Task(reader, made, str(path), drop), 0, split, parts)
    return fragment, np.fromfile(fragment.path).reshape(-1, reader.width)


def refusal(fragment: Fragment, unit: str = "line") -> str:
    with pytest.raises(PrepError) as caught:
        refuse_faults([fragment], [SPLIT], unit)
    assert caught.value.remedy
    return str(caught.value).splitlines()[0]


GOOD = [b"30,clerk,2020-01-01,1", b"40,nurse,2020-01-02,0", b"50,clerk,2020-01-03,1", b"60,smith,2020-01-04,0"]
DAY = 1577836800.0
ROWS = [[1, 30, 0, DAY], [0, 40, 1, DAY + 86400], [1, 50, 0, DAY + 2 * 86400], [0, 60, 2, DAY + 3 * 86400]]


def csv_reader(made: Reading) -> DelimitedReader:
    return DelimitedReader(made, ",", HEADER)


def test_csv_rows_have_the_label_first_and_codes_beside_them(tmp_path: Path) -> None:
    fragment, rows = read(csv_reader(reading()), reading(), batches([HEADER, *GOOD, b""]), tmp_path)
    assert rows.tolist() == ROWS
    assert (fragment.lines, fragment.skipped, fragment.kept, fragment.dropped) == (6, 1, 4, {"blank": 1})
    assert load_codes(fragment.path) == {2: ["clerk", "nurse", "smith"]}


def test_the_header_is_taken_at_the_start_of_a_file_alone(tmp_path: Path) -> None:
    later = Split("file:/data/x.csv", 4096, 1)
    fragment, rows = read(csv_reader(reading()), reading(), batches(GOOD), tmp_path, split=later)
    assert (len(rows), fragment.skipped) == (4, 0)
    marked = [b"\xef\xbb\xbf" + HEADER, *GOOD]
    assert read(csv_reader(reading()), reading(), batches(marked), tmp_path)[0].kept == 4
    bare = DelimitedReader(reading(), ",", None)
    assert read(bare, reading(), batches([b"\xef\xbb\xbf" + GOOD[0], *GOOD[1:]]), tmp_path)[1].tolist() == ROWS


def test_blank_lines_may_stand_before_the_header(tmp_path: Path) -> None:
    lines = [b"\xef\xbb\xbf", b" ", HEADER, *GOOD, b"x,clerk,2020-01-01,1"]
    found = infer_delimited(lines, "x.csv", None, None, ())
    assert (found.header, [column.name for column in found.columns]) == (HEADER, ["age", "job", "since", "late"])
    for size in (1, 2, 3, 99):
        fragment, rows = read(csv_reader(reading()), reading(), batches(lines, size), tmp_path, drop=True)
        assert rows.tolist() == ROWS
        assert (fragment.lines, fragment.skipped + fragment.dropped["blank"], fragment.dropped["number"]) == (8, 3, 1)
        fragment, _ = read(csv_reader(reading()), reading(), batches(lines, size), tmp_path)
        assert refusal(fragment).startswith("/data/x.csv, line 8, column 1 (age): expected a number")
        (tmp_path / "fault-0").unlink()
        fragment, _ = read(csv_reader(reading()), reading(), batches([b"", b"a,b", *GOOD], size), tmp_path)
        assert refusal(fragment).startswith("/data/x.csv, line 2, column 1: expected the header of the first file")
        (tmp_path / "fault-0").unlink()


BAD = {
    b"x,clerk,2020-01-01,1": "line 5, column 1 (age): expected a number, found 'x'",
    b"30,clerk,today,1": "line 5, column 3 (since): expected a date such as 2026-01-31 or 2026-01-31 12:00:00, "
    "found 'today'",
    b"30,\xe9,2020-01-01,1": "line 5, column 2 (job): expected UTF-8 text, found '\ufffd'",
    b"30,clerk,2020-01-01": "line 5, column 3: expected 4 columns separated by commas, found 3 in "
    "'30,clerk,2020-01-01'",
    b"30,clerk,2020-01-01,1,2": "line 5, column 4: expected 4 columns separated by commas, found 5 in "
    "'30,clerk,2020-01-01,1,2'",
    b'30,"clerk,2020-01-01,1': "line 5, column 2: expected a quote at the end of a quoted cell, found "
    "'30,\"clerk,2020-01-01,1'",
    b"NA,clerk,2020-01-01,1": "line 5, column 1 (age): expected a value, found 'NA'",
    b"30,,2020-01-01,1": "line 5, column 2 (job): expected a value, found ''",
    b"30,clerk,2020-01-01,": "line 5, column 4 (late): expected a value, found ''",
    b"1e999,clerk,2020-01-01,1": "line 5, column 1 (age): expected a finite number, found '1e999'",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_of_csv_is_refused_with_file_line_and_column(line: bytes, tmp_path: Path) -> None:
    lines = [HEADER, *GOOD[:3], line, GOOD[3]]
    fragment, _ = read(csv_reader(reading()), reading(), batches(lines), tmp_path)
    assert refusal(fragment) == f"/data/x.csv, {BAD[line]}"
    (tmp_path / "fault-0").unlink()
    dropped, rows = read(csv_reader(reading()), reading(), batches(lines), tmp_path, drop=True)
    assert rows[:, 1].tolist() == [30, 40, 50, 60] and dropped.dropped.total() == 1
    assert dropped.lines == dropped.skipped + dropped.kept + dropped.dropped.total()


@pytest.mark.parametrize("cell", [b"x" * 200_000, b"x\ry"])
def test_a_bad_cell_of_any_length_and_text_is_refused(cell: bytes, tmp_path: Path) -> None:
    fragment, _ = read(csv_reader(reading()), reading(), batches([HEADER, cell + GOOD[0]]), tmp_path)
    assert refusal(fragment).startswith("/data/x.csv, line 2, column 1 (age): expected a number, found 'x")


def test_another_header_is_refused(tmp_path: Path) -> None:
    fragment, _ = read(csv_reader(reading()), reading(), batches([b"age,job,until,late", *GOOD]), tmp_path)
    assert refusal(fragment) == (
        "/data/x.csv, line 1, column 3: expected the header of the first file, 'age,job,since,late', "
        "found 'age,job,until,late'"
    )


def test_missing_values_are_dropped_or_kept_as_asked(tmp_path: Path) -> None:
    lines = [HEADER, *GOOD, b"NA,clerk,2020-01-01,1", b"70,,NA,0"]
    fragment, rows = read(csv_reader(reading("drop")), reading("drop"), batches(lines), tmp_path)
    assert len(rows) == 4 and fragment.dropped == {"missing": 2}
    fragment, rows = read(csv_reader(reading("mean")), reading("mean"), batches(lines), tmp_path)
    assert np.isnan(rows).sum(axis=0).tolist() == [0, 1, 1, 1]
    fragment, _ = read(csv_reader(reading("mean")), reading("mean"), batches([*lines, b"1,clerk,NA,NA"]), tmp_path)
    assert refusal(fragment).startswith("/data/x.csv, line 8, column 4 (late): expected a value")


def test_too_many_categories_stop_the_split(tmp_path: Path) -> None:
    few = reading(categories_max=2)
    fragment, _ = read(csv_reader(few), few, batches([HEADER, *GOOD]), tmp_path)
    assert fragment.error is not None and "job has more than 2 categories" in str(fragment.error)
    with pytest.raises(PrepError, match="--hash BUCKETS"):
        refuse_faults([fragment], [SPLIT], "line")


def test_a_transform_knows_its_categories_and_counts_others(tmp_path: Path) -> None:
    known = reading(known={"job": ("nurse", "smith")})
    fragment, rows = read(csv_reader(known), known, batches([HEADER, *GOOD]), tmp_path)
    assert rows[:, 2].tolist() == [UNSEEN, 0, UNSEEN, 1] and fragment.unseen == {"job": 2}


def test_an_unseen_class_of_the_label_is_refused(tmp_path: Path) -> None:
    layout = choose(FOUND, Wishes("job", ("age",)))
    known = reading(layout=layout, known={"job": ("clerk", "nurse")})
    fragment, _ = read(csv_reader(known), known, batches([HEADER, *GOOD]), tmp_path)
    expected = "/data/x.csv, line 5, column 2 (job): expected one of the label's classes, clerk, nurse, found 'smith'"
    assert refusal(fragment) == expected


def test_the_first_fault_in_the_order_of_the_input_is_told_with_its_line_in_the_file(tmp_path: Path) -> None:
    splits = [Split("file:/a", 0, 1), Split("file:/b", 0, 0), Split("file:/b", 99, 2), Split("file:/b", 200, 3)]
    task = Task(csv_reader(reading()), reading(), str(tmp_path), False)
    contents = [[HEADER, *GOOD], [HEADER, *GOOD], [*GOOD, b"x,clerk,2020-01-01,1"], [b"oops"]]
    made = [
        read_split(task, place, split, batches(lines)) for place, (split, lines) in enumerate(zip(splits, contents))
    ]
    assert made[3].path == "", "what is behind a fault is not read"
    with pytest.raises(PrepError, match=r"^/b, line 10, column 1"):
        refuse_faults(made, splits, "line")


def test_libsvm_dense_and_sparse(tmp_path: Path) -> None:
    lines = [b"1 2:5 1:3", b"-1", b"", b"1 4:2 # 9:9", b"0 9:1 3:1"]
    fragment, rows = read(LibsvmReader(1, 4), None, batches(lines), tmp_path)
    assert rows.tolist() == [[1, 3, 5, 0, 0], [-1, 0, 0, 0, 0], [1, 0, 0, 0, 2], [0, 0, 0, 1, 0]]
    assert fragment.unseen == {"features": 1} and fragment.dropped == {"blank": 1}
    assert extent(batches(lines), 1) == (9, 2)
    _, rows = read(LibsvmReader(1, 9, 2), None, batches(lines), tmp_path)
    assert rows.tolist() == [[1, 1, 0, 5, 3], [-1, 0, 0, 0, 0], [1, 3, 0, 2, 0], [0, 8, 2, 1, 1]]


def test_numbers_of_libsvm_are_finite_one_by_one(tmp_path: Path) -> None:
    """Whatever their sum is."""
    _, rows = read(LibsvmReader(1, 2), None, batches([b"1 1:1e308 2:1e308"]), tmp_path)
    assert rows.tolist() == [[1, 1e308, 1e308]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 0:1", "line 3, column 3: expected an index of at least 1, found '0:1'"),
        (b"1 2:1 2:2", "line 3, column 7: expected each index once, found '2:2'"),
        (b"1 2:1 x", "line 3, column 7: expected index:value, two numbers, found 'x'"),
        (b"a 2:1", "line 3, column 1: expected a label, which is a number, found 'a'"),
        (b"1 2:inf", "line 3, column 3: expected finite numbers, found '1 2:inf'"),
    ],
)
def test_a_bad_line_of_libsvm_is_refused_with_its_character(line: bytes, message: str, tmp_path: Path) -> None:
    fragment, _ = read(LibsvmReader(1, 4), None, batches([b"1 1:1", b"0", line]), tmp_path)
    assert refusal(fragment) == f"/data/x.csv, {message}"


TYPES = {"age": "number", "job": "string", "since": "string", "late": "boolean"}
JSON = [
    {"age": 30, "job": "clerk", "since": "2020-01-01", "late": True},
    {"late": False, "job": "nurse", "age": 4e1, "since": "2020-01-02", "more": [1]},
    {"age": 50, "job": "clerk", "since": "2020-01-03", "late": True},
    {"age": 60, "job": "smith", "since": "2020-01-04", "late": False},
]


def json_lines(*more: object) -> list[bytes]:
    return [line if isinstance(line, bytes) else json.dumps(line).encode() for line in (*JSON[:3], *more, JSON[3])]


def test_json_rows(tmp_path: Path) -> None:
    made = reading("mean")
    lines = json_lines(b"", {"late": True, "age": None, "job": "NA"})
    fragment, rows = read(JsonReader(made, TYPES), made, batches(lines), tmp_path)
    assert rows[[0, 1, 2, 4]].tolist() == ROWS
    assert np.isnan(rows[3, 1:]).all() and fragment.dropped == {"blank": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"age": 1', "column 10: expected an object of JSON"),
        (b"[1]", "column 1: expected an object of JSON, found '[1]'"),
        (b'{"late": true} {}', "column 16: expected an object of JSON"),
        ({"age": "old", "job": "x", "since": "2020-01-01", "late": True}, "column 1 (age): expected a number, found"),
        ({"age": 1, "job": 5, "since": "2020-01-01", "late": True}, "column 2 (job): expected a string, found '5'"),
        ({"age": 1, "job": "x", "since": "now", "late": True}, "column 3 (since): expected a date such as"),
        ({"age": 1, "job": "x", "since": "2020-01-01"}, "column 4 (late): expected a value, found 'null'"),
        (b'{"age": 1, "job": "\xff", "since": "2020-01-01", "late": true}', "expected UTF-8"),
        (b'{"age": NaN, "job": "x", "since": "2020-01-01", "late": true}', "column 1 (age): expected a value"),
        (
            b'{"age": 1e999, "job": "x", "since": "2020-01-01", "late": true}',
            "expected an object of JSON (Number too big",
        ),
        (b'{"age": 1, "job": "\\ud800", "since": "2020-01-01", "late": true}', "an object of JSON (The surrogate pair"),
        (b'{"age": 1, "age": 2, "since": "2020-01-01", "late": true}', "(Column(/age) was specified twice"),
    ],
)
def test_a_bad_line_of_json_is_refused(line: object, message: str, tmp_path: Path) -> None:
    made = reading()
    fragment, _ = read(JsonReader(made, TYPES), made, batches(json_lines(line)), tmp_path)
    assert message in refusal(fragment) and "/data/x.csv, line 4, " in refusal(fragment)
    (tmp_path / "fault-0").unlink()
    _, rows = read(JsonReader(made, TYPES), made, batches(json_lines(line)), tmp_path, drop=True)
    assert rows[:, [0, 1, 3]].tolist() == [[row[0], row[1], row[3]] for row in ROWS]


DEEP = b', "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
LONG = b', "more": ' + b"1" * 5000 + b"}"
"""Ends of lines that Python does not read."""


@pytest.mark.parametrize("end", [DEEP, LONG], ids=["deep", "long"])
def test_a_line_that_python_does_not_read_is_pyarrows_to_judge(end: bytes, tmp_path: Path) -> None:
    made = reading()
    fit = b'{"age": 60, "job": "smith", "since": "2020-01-04", "late": false' + end
    lines = [*(json.dumps(line).encode() for line in JSON[:3]), b"[1]", b'{"age": "old"' + end, fit]
    _, rows = read(JsonReader(made, TYPES), made, batches(lines), tmp_path, drop=True)
    assert rows[:, [0, 1, 3]].tolist() == [[row[0], row[1], row[3]] for row in ROWS]
    for wrong, message in (("old", "line 1, column 1"), (None, "column 1 (age): expected a value")):
        line = b'{"job": "x", "since": "2020-01-01", "late": true, "age": ' + json.dumps(wrong).encode() + end
        fragment, _ = read(JsonReader(made, TYPES), made, batches([line]), tmp_path)
        assert message in refusal(fragment)
        (tmp_path / "fault-0").unlink()


def test_columns_of_many_types_become_numbers(tmp_path: Path) -> None:
    names = ["label", "int", "bool", "text", "date", "moment", "word", "decimal"]
    kinds = ["number", "number", "number", "number", "date", "date", "category", "number"]
    layout = choose([Found(*pair) for pair in zip(names, kinds)], Wishes("label"))  # type: ignore[arg-type]
    noon = datetime.datetime(1970, 1, 2, 12, tzinfo=datetime.UTC)
    columns = {
        "label": pa.array([1.0, 0.0]), "int": pa.array([7, None], pa.int64()), "bool": pa.array([True, False]),
        "text": pa.array(["1.5", "NA"]), "date": pa.array([datetime.date(1970, 1, 2), None]),
        "moment": pa.array([noon, noon], pa.timestamp("us", "UTC")), "word": pa.array([3, 5], pa.int32()),
        "decimal": pa.array(["1.25", "2"]).cast(pa.decimal128(6, 2)),
    }  # fmt: skip
    made = reading("mean", layout)
    fragment, rows = read(ColumnarReader(made), made, [pa.record_batch(columns)], tmp_path)
    expected = [[1, 7, 1, 1.5, 86400, 129600, 0, 1.25], [0, np.nan, 0, np.nan, np.nan, 129600, 1, 2]]
    np.testing.assert_array_equal(rows, expected)
    assert load_codes(fragment.path) == {6: ["3", "5"]}


def test_a_cell_of_a_column_that_is_no_number_is_refused(tmp_path: Path) -> None:
    layout = choose(FOUND[:1] + FOUND[3:], Wishes("late"))
    made = reading(layout=layout)
    batch = pa.record_batch({"late": pa.array([1.0, 0.0]), "age": pa.array(["3", "old"])})
    fragment, _ = read(ColumnarReader(made), made, [batch], tmp_path)
    assert refusal(fragment, "row") == "/data/x.csv, row 2, column 1 (age): expected a number, found 'old'"
