"""What becomes of parsed rows, against loops over single cells; and that a transform survives its file."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.prep_spark.columns import Column, Layout
from riprap.prep_spark.errors import PrepError
from riprap.prep_spark.measure import Moments
from riprap.prep_spark.ordering import sort_keys
from riprap.prep_spark.relabel import merged, relabelled
from riprap.prep_spark.shards import Source
from riprap.prep_spark.tables import UNSEEN, Buckets, Codes, Known, bucket, seconds
from riprap.prep_spark.transform import Indexes, Transform, fitted, layout_like, load, pairs_as_records, record_type

COLUMNS = (Column("late", "number", 3), Column("age", "number", 0), Column("job", "category", 1))
ROWS = np.array([[1, 10, 0], [0, math.nan, 2], [1, 30, math.nan], [0, 20, 1]])
JOBS = {2: ("clerk", "nurse", "smith")}


def transform(scale: str = "none", policy: str = "fail", buckets: int | None = None, sparse: bool = False) -> Transform:
    return fitted(COLUMNS, JOBS, Moments.of(ROWS), scale, policy, ["", "NA"], buckets, sparse)  # type: ignore[arg-type]


def matrix(made: Transform, rows: np.ndarray = ROWS) -> list[list[float]]:
    form = made.form(rows.shape[1])
    assert form is not None and form.columns == len(made.columns())
    return form.convert(rows).tolist()


def test_categories_become_columns_and_missing_numbers_the_mean() -> None:
    made = transform("none", "flag")
    names = ["late", "age", "age_missing", "job=clerk", "job=nurse", "job=smith", "job_missing"]
    assert made.columns() == names
    assert matrix(made) == [
        [1, 10, 0, 1, 0, 0, 0],
        [0, 20, 1, 0, 0, 1, 0],
        [1, 30, 0, 0, 0, 0, 1],
        [0, 20, 0, 0, 1, 0, 0],
    ]
    assert transform("none", "mean").columns() == ["late", "age", "job=clerk", "job=nurse", "job=smith"]


def test_numbers_are_scaled() -> None:
    ages = [row[1] for row in matrix(transform("standard", "mean"))]
    assert np.allclose(ages, (np.array([10, 20, 30, 20]) - 20) / np.std([10, 30, 20]))
    assert [row[1] for row in matrix(transform("minmax", "mean"))] == [0, 0.5, 1, 0.5]


def test_a_constant_column_stays_finite() -> None:
    rows = np.array([[0.0, 5.0], [1.0, 5.0]])
    for scale in ("standard", "minmax"):
        made = fitted(COLUMNS[:2], {}, Moments.of(rows), scale, "fail", [], None, False)
        assert [row[1] for row in matrix(made, rows)] == [0, 0]


@pytest.mark.parametrize(
    ("columns", "categories", "policy", "twice"),
    [
        ((Column("y", "number", 0), Column("job", "category", 1), Column("job=smith", "number", 2)),
         {1: ("smith",)}, "fail", "job=smith"),
        ((Column("y", "number", 0), Column("age", "number", 1), Column("age_missing", "number", 2)),
         {}, "flag", "age_missing"),
    ],
)  # fmt: skip
def test_two_columns_of_one_name_are_refused(
    columns: tuple[Column, ...], categories: dict, policy: str, twice: str
) -> None:
    moments = Moments.of(np.array([[0, math.nan, 1], [1, 0, 1]]))
    with pytest.raises(PrepError, match=f"two columns of the shards would be named {twice}") as caught:
        fitted(columns, categories, moments, "none", policy, [], None, False)  # type: ignore[arg-type]
    assert caught.value.remedy
    assert fitted(columns, categories, moments, "none", policy, [], 9, False).buckets == 9  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize(("scale", "greatest"), [("standard", 3e200), ("minmax", 1.7e308)])
def test_numbers_that_are_too_far_apart_for_a_scale_are_refused(scale: str, greatest: float) -> None:
    rows = np.array([[0.0, greatest], [1.0, -greatest]])
    with pytest.raises(PrepError, match=rf"column age has numbers from -{greatest} to {greatest}".replace("+", ".")):
        fitted(COLUMNS[:2], {}, Moments.of(rows), scale, "fail", [], None, False)
    assert matrix(fitted(COLUMNS[:2], {}, Moments.of(rows), "none", "mean", [], None, False), rows) == rows.tolist()


def test_plain_numbers_stay_as_they_are() -> None:
    made = fitted(COLUMNS[:2], {}, None, "none", "fail", [], None, False)
    assert made.form(2) is None
    assert made.form(3) is not None, "a column to order by is left out"


def test_unseen_and_missing_categories_are_no_category() -> None:
    rows = np.array([[1, 5, UNSEEN], [1, 5, 2]])
    assert matrix(transform(), rows) == [[1, 5, 0, 0, 0], [1, 5, 0, 0, 1]]


def test_sparse_records_have_the_places_of_the_matrix() -> None:
    made = transform("minmax", "flag", sparse=True)
    dense, form = matrix(transform("minmax", "flag")), made.form(3)
    assert form is not None and form.columns == 0
    records = form.convert(ROWS)
    for record, row in zip(records, dense):
        found = np.zeros(len(row) - 1)
        np.add.at(found, record["indexes"], record["values"])
        assert [record["label"], *found] == row
    assert made.fields(form)["features"] == 6 and made.fields(form)["format"] == "riprap-records"


def test_hashed_records() -> None:
    made = transform(buckets=50)
    hashed = np.array([[1, 2.5, Buckets("job", 50)[b"nurse"]], [0, 1.5, math.nan]])
    form = made.form(3)
    assert form is not None
    records = form.convert(hashed)
    assert records["indexes"].tolist()[0] == [bucket("age", b"", 50), bucket("job", b"nurse", 50)]
    assert records["values"].tolist() == [[2.5, 1], [1.5, 0]]
    assert made.fields(form)["features"] == 50
    assert bucket("job", b"nurse", 1 << 20) == 23_300 and bucket("x", b"nurse", 1 << 20) != 217_158


def test_numbers_that_no_record_holds_are_refused() -> None:
    largest = float(np.finfo(np.float32).max)
    for made in (transform(sparse=True), transform(buckets=9)):
        form = made.form(3)
        assert form is not None
        assert form.convert(np.array([[1.0, largest, 0.0]]))["values"][0, 0] == largest
        with pytest.raises(PrepError, match=r"column age has the number -1e\+39: .* float32"):
            form.convert(np.array([[1, 2, 0], [1, -1e39, 0]]))
        with pytest.raises(PrepError, match=r"column late has the number 1e\+300"):
            form.convert(np.array([[1e300, 2, 0]]))
    with pytest.raises(PrepError, match=r"column values has the number 1e\+300"):
        pairs_as_records(np.array([[1, 5, 1e300]]), record_type(1))


def test_too_wide_a_matrix_is_refused_with_the_remedy() -> None:
    many = {2: tuple(f"job{number}" for number in range(5000))}
    with pytest.raises(PrepError, match=r"5,001 columns.*5,000, are categories of job") as caught:
        fitted(COLUMNS, many, None, "none", "fail", [], None, False)
    assert "--hash" in caught.value.remedy
    assert fitted(COLUMNS, many, None, "none", "fail", [], None, True).sparse


@pytest.mark.parametrize(
    "made",
    [
        transform("standard", "flag"), transform(buckets=9), transform(sparse=True),
        transform().of_libsvm(Indexes(1, 7)),
    ],
)  # fmt: skip
def test_a_transform_survives_its_file(made: Transform, tmp_path: Path) -> None:
    made.save(str(tmp_path))
    assert load(str(tmp_path)) == made
    rows = np.where(np.isnan(ROWS), 0, ROWS)
    np.testing.assert_array_equal(load(str(tmp_path)).form(3).convert(rows), made.form(3).convert(rows))  # type: ignore[union-attr]


def test_a_transform_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrepError, match=r"transform.json does not exist"):
        load(str(tmp_path))
    transform().save(str(tmp_path))
    path = tmp_path / "transform.json"
    whole = json.loads(path.read_text())
    for edit, message in (({"version": 2}, "expected version to be 1, found 2"), ({"format": "x"}, "expected format")):
        path.write_text(json.dumps(whole | edit))
        with pytest.raises(PrepError, match=message):
            load(str(tmp_path))
    path.write_text(json.dumps({key: value for key, value in whole.items() if key != "label"}))
    with pytest.raises(PrepError, match="no 'label'"):
        load(str(tmp_path))
    for text in ("{", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(PrepError, match="cannot be read"):
            load(str(tmp_path))


def test_new_tables_are_read_by_name_and_all_missing_columns_are_named() -> None:
    layout = layout_like(transform(), ["job", "extra", "late", "age"])
    assert [(column.name, column.place) for column in layout.columns] == [("late", 2), ("age", 3), ("job", 0)]
    with pytest.raises(PrepError, match="has no column late, job"):
        layout_like(transform(), ["age"])


def test_pairs_become_records() -> None:
    records = pairs_as_records(np.array([[1, 4, 7, 0.5, 2.0]]), record_type(2))
    assert records["indexes"].tolist() == [[4, 7]] and records["values"].tolist() == [[0.5, 2]]


numbers = st.floats(-1e6, 1e6) | st.just(math.nan)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30), st.data())
def test_moments_of_pieces_are_those_of_the_whole(rows: list[tuple[float, float]], data: st.DataObject) -> None:
    whole = np.array(rows)
    cut = data.draw(st.integers(0, len(rows)))
    pieces = [Moments.of(piece) for piece in (whole[:cut], whole[cut:]) if len(piece)]
    found = sum(pieces, Moments.nothing(2))
    for column in range(2):
        values = whole[:, column][~np.isnan(whole[:, column])]
        assert found.numbers[column] == len(values) and found.missing[column] == len(whole) - len(values)
        if len(values):
            assert found.mean[column] == pytest.approx(values.mean(), rel=1e-9, abs=1e-6)
            assert found.deviation[column] == pytest.approx(values.std(), rel=1e-6, abs=1e-3)
            assert (found.least[column], found.greatest[column]) == (values.min(), values.max())


@given(st.lists(st.floats(), max_size=30))
def test_sort_keys_order_as_the_numbers_do(values: list[float]) -> None:
    array = np.array(values, float)
    order = array[np.argsort(sort_keys(array), kind="stable")]
    np.testing.assert_array_equal(order, np.sort(array))


def test_categories_of_splits_get_one_code_each(tmp_path: Path) -> None:
    layout = Layout(COLUMNS, ("age", "job", "x", "late"), 3)
    sources = []
    for number, (codes, met) in enumerate((([0, 1, math.nan], ["smith", "clerk"]), ([0, 0], ["nurse"]))):
        path = tmp_path / str(number)
        np.array([[1, 2, code] for code in codes]).tofile(path)
        path.with_name(f"{number}.codes").write_text(json.dumps({2: met}))
        sources.append(Source(str(path), len(codes)))
    categories = merged(sources, layout, [2], 3)
    assert categories == JOBS
    made = [relabelled(source, 3, categories) for source in sources]
    found = np.concatenate([np.fromfile(source.path).reshape(-1, 3)[:, 2] for source in made])
    np.testing.assert_array_equal(found, [2, 0, math.nan, 1, 1])
    with pytest.raises(PrepError, match="column job has more than 2 categories"):
        merged(sources, layout, [2], 2)


def test_tables_of_categories() -> None:
    codes = Codes("job", 2)
    assert [codes[cell] for cell in (b"a", b"b", b"a")] == [0, 1, 0]
    with pytest.raises(PrepError, match="job has more than 2 categories"):
        codes[b"c"]
    known = Known(["a", "b"])
    assert [known[cell] for cell in (b"b", b"c", b"c")] == [1, UNSEEN, UNSEEN] and len(known) == 2
    for table in (codes, known, Buckets("job", 5)):
        with pytest.raises(ValueError, match="utf-8"):
            table[b"\xff"]


def test_a_date_without_a_zone_is_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        assert seconds("1970-01-02") == 86400
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["12:00", "20200101", "2020", "x", "2020-13-01", ""])
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(ValueError):
        seconds(text)
