"""Columns, kinds, delimiters and headers from the first lines of a file."""

from __future__ import annotations

import pytest

from riprap.prep_spark.columns import Found, Wishes, choose
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.inference import MISSING, infer_delimited, infer_json
from riprap.prep_spark.table_options import TableOptions


def delimited(text: bytes, delimiter: str | None = None, header: bool | None = None):
    return infer_delimited(text.split(b"\n"), "x.csv", delimiter, header, MISSING)


def test_kinds_and_the_header_are_found() -> None:
    found = delimited(b'age, job ,since,empty\n3,clerk,2020-01-31,NA\n,"a,b",2020-02-01 10:00:00,\nbad line\n')
    assert [(column.name, column.kind) for column in found.columns] == [
        ("age", "number"), ("job", "category"), ("since", "date"), ("empty", "number"),
    ]  # fmt: skip
    assert (found.delimiter, found.header) == (",", b"age, job ,since,empty")
    assert [column.missing for column in found.columns] == [0.5, 0, 0, 1]
    assert found.columns[1].examples == ("clerk", "a,b")


@pytest.mark.parametrize(("text", "mark"), [(b"a;b\n1,5;2", ";"), (b"a\tb c\n1\t2", "\t"), (b"a|b\n1|2", "|")])
def test_the_delimiter_is_what_cuts_most(text: bytes, mark: str) -> None:
    assert delimited(text).delimiter == mark


def test_a_file_of_numbers_has_no_header() -> None:
    found = delimited(b"1.0,2,NA\n3,4,5")
    assert [column.name for column in found.columns] == ["c1", "c2", "c3"] and found.header is None
    assert delimited(b"0,tcp,yes\n1,udp,no").header is None
    assert [column.name for column in delimited(b"1.0,2\n3,4", header=True).columns] == ["1.0", "2"]
    assert delimited(b"a,b\n3,4", header=False).columns[0].kind == "category"


def test_a_cell_of_any_length_and_of_any_text_is_one() -> None:
    found = delimited(b"y,x\n0," + b"a" * 200_000 + b'\n1,"b, ""c"""\n0,d\re\n')
    assert [column.kind for column in found.columns] == ["number", "category"]
    assert found.columns[1].examples == ("a" * 200_000, 'b, "c"', "d\re")


def test_a_mark_of_the_byte_order_is_no_part_of_a_name() -> None:
    assert delimited(b"\xef\xbb\xbfa,b\n1,2").columns[0].name == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "x.csv is empty"),
        (b"\n\n", "x.csv is empty"),
        (b"a,b\n", "x.csv has a header and no row"),
        (b'a,"b\n', "x.csv has a header and no row"),
        (b"a,b\r1,2\r", "x.csv is one line: its lines end with CR alone"),
        (b"0,1\r1,2", "x.csv is one line: its lines end with CR alone"),
        (b"a,,a,b,a\n1,2,3,4,5", r"x.csv, line 1: .* no name for column 2 and .* named a \(column 3\), a \(column 5\)"),
        (b"a,b\n1,\xe9", "x.csv, line 2, byte 3: expected UTF-8, found 0xe9"),
        ("a,b\n1,2".encode("utf-16"), "x.csv, line 1: expected UTF-8, found UTF-16"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name_and_line(text: bytes, message: str) -> None:
    with pytest.raises(PrepError, match=message) as caught:
        delimited(text)
    assert caught.value.remedy


def test_json_has_types() -> None:
    lines = [b'{"a": null, "b": "x", "d": "2020-01-01"}', b"", b'{"a": 1.5, "c": true, "n": {"m": 1}}']
    found, types = infer_json(lines, "x.json", MISSING)
    assert types == {"a": "number", "b": "string", "d": "string", "c": "boolean", "n": "nested value"}
    kinds = {column.name: column.kind for column in found}
    assert kinds == {"a": "number", "b": "category", "d": "date", "c": "number", "n": "number"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b'{"a": 1}', b'{"a": "x"}'], "x.json, line 2, column a: expected a number, as before; found a string, 'x'"),
        ([b'{"a": 1}', b"[1]"], "x.json, line 2: expected an object of JSON"),
        ([b'{"a": 1'], "x.json, line 1, character 8: expected an object"),
        ([b"", b" "], "x.json is empty"),
        ([b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"], "x.json, line 1: maximum recursion depth"),
        ([b'{"a": ' + b"1" * 5000 + b"}"], "x.json, line 1: Exceeds the limit"),
    ],
)
def test_json_that_is_no_table_is_refused(lines: list[bytes], message: str) -> None:
    with pytest.raises(PrepError, match=message):
        infer_json(lines, "x.json", MISSING)


FOUND = [Found("age", "number"), Found("job", "category"), Found("since", "date"), Found("late", "number")]


def test_wishes_go_before_what_was_found() -> None:
    layout = choose(FOUND, Wishes("late", ("job", "age"), categorical=("age",), order="since"))
    assert [(column.name, column.kind, column.place) for column in layout.columns] == [
        ("late", "number", 3), ("job", "category", 1), ("age", "category", 0), ("since", "date", 2),
    ]  # fmt: skip
    assert layout.used == 3 and layout.slot(2) == 3 and layout.file_columns == ("age", "job", "since", "late")
    assert [column.name for column in choose(FOUND, Wishes("late")).columns] == ["late", "age", "job", "since"]


def test_all_wrong_names_come_at_once() -> None:
    wishes = Wishes("Late", ("jbo", "age", "age"), numeric=("age",), date=("age",), order="when")
    with pytest.raises(PrepError) as caught:
        choose(FOUND, wishes)
    text = str(caught.value)
    for part in (
        "--label Late: there is no such column; is late meant?", "--features jbo: there is no such column; is job",
        "--order when: there is no such column", "age is named by --numeric and --date", "--features age: named twice",
        "remedy: the columns are age, job, since, late",
    ):  # fmt: skip
        assert part in text


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        (Wishes("late", order="job"), "--order job: its cells are text"),
        (Wishes("late", ("late",)), "--features late: that is the label"),
    ],
)
def test_a_choice_without_sense_is_refused(wishes: Wishes, message: str) -> None:
    with pytest.raises(PrepError, match=message):
        choose(FOUND, wishes)


def test_all_wrong_options_come_at_once() -> None:
    options = TableOptions(
        "in", "out", "xml", Wishes("y"), missing="maybe", holdout=1.5, buckets=5, one_hot=True, delimiter="ab"  # type: ignore[arg-type]
    )  # fmt: skip
    with pytest.raises(PrepError) as caught:
        options.check()
    for part in (
        "--format is 'xml'",
        "--missing is 'maybe'",
        "--holdout is 1.5",
        "--hash and --one-hot",
        "--delimiter",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": "libsvm", "wishes": Wishes("", ("a",))}, "--format libsvm"),
        ({"format": "csv", "wishes": Wishes("y"), "like": "d"}, "--like: the transform says"),
        ({"format": "csv", "wishes": Wishes("y"), "zero_based": True}, "--zero-based is for"),
        ({"format": "json", "wishes": Wishes("y"), "header": True}, "--header are for"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(given: dict, message: str) -> None:
    with pytest.raises(PrepError, match=message):
        TableOptions("in", "out", **given).check()
