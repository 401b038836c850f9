"""Results as tables: what the shipped operators make of theirs, and what becomes of a user's own."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.operators.base import Sink
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.joins.ripple_join import RippleJoin
from riprap.operators.learning import kmeans, logistic_regression, random_features
from riprap.operators.learning.gradient import GlobalGradient
from riprap.operators.learning.model_tables import INTERCEPT
from riprap.operators.learning.online_logistic import GlobalModel
from riprap.operators.states import pack_keys
from riprap.operators.tables import Schema, Table, lines_of, plain_columns, plain_tables, texts
from riprap.operators.text.grep import MergeLines
from riprap.operators.text.word_count import CountRecentWords, CountWords

SCHEMA = Schema(("label", "height", "weight"), "label")


def rows(table: Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.tolist() for column in table.columns.values()), strict=True))


def words(**counts: int) -> dict[str, np.ndarray]:
    data, offsets = pack_keys([word.encode() for word in counts])
    return {"words": data, "offsets": offsets, "counts": np.array(list(counts.values()), np.int64)}


def test_words_of_all_tasks_come_the_most_frequent_first() -> None:
    found = CountWords.tables([words(café=3, b=5), words(a=3, d=1)], Schema())
    assert list(found) == ["words"]
    assert rows(found["words"]) == [("b", 5), ("a", 3), ("café", 3), ("d", 1)]
    assert list(CountRecentWords.tables([words(a=1)], Schema())) == ["recent_words"]
    assert plain_columns(CountRecentWords.window_columns("words", words(x=2)))["count"].tolist() == [2]


def test_lines_come_in_the_order_of_the_input_across_windows_and_tasks() -> None:
    """Task 0 reads the first half of the input, in both windows."""
    windows = [
        {"window": np.full(2, 1), "task": np.array([0, 1]), "line": texts(["first", "third"])},
        {"window": np.full(2, 2), "task": np.array([0, 1]), "line": texts(["second", "fourth"])},
    ]
    assert rows(MergeLines.whole("lines", windows)) == [("first",), ("second",), ("third",), ("fourth",)]
    assert MergeLines.tables([{"lines": np.array([4])}], Schema()) == {}


def test_what_is_no_utf8_can_be_read_too() -> None:
    assert lines_of(np.frombuffer(b"caf\xe9ok", np.uint8), np.array([0, 4, 6])).tolist() == ["caf\\xe9", "ok"]


def test_coefficients_have_the_names_of_columns() -> None:
    model = {"coefficients": np.array([1.5, -2.0]), "intercept": np.array([0.5]), "classes": np.array([0.0, 1.0])}
    table = logistic_regression.Model.tables([model], SCHEMA)["model"]
    assert rows(table) == [("height", 1.5), ("weight", -2.0), (INTERCEPT, 0.5)] and "class 1" in table.note
    unknown = logistic_regression.Model.tables([model, model], Schema())["model"]
    assert rows(unknown)[:2] == [(0, "x0", 1.5), (0, "x1", -2.0)] and rows(unknown)[-1] == (1, INTERCEPT, 0.5)


def test_centres_are_rows_the_heaviest_first() -> None:
    model = {"centres": np.array([[1.0, 2.0], [3.0, 4.0]]), "weights": np.array([10.0, 20.0])}
    table = kmeans.Model.tables([model], SCHEMA)["model"]
    assert list(table.columns) == ["centre", "(weight)", "height", "weight"]
    assert rows(table) == [(1, 20.0, 3.0, 4.0), (0, 10.0, 1.0, 2.0)]


def test_a_network_shows_its_layers() -> None:
    model = {
        "hidden_weights": np.arange(6.0).reshape(2, 3), "hidden_intercept": np.zeros(3), "activation": np.array([1.0]),
        "coefficients": np.ones(3), "intercept": np.array([0.25]), "classes": np.array([0.0, 1.0]),
    }  # fmt: skip
    found = random_features.Model.tables([model], SCHEMA)
    assert rows(found["model"]) == [("hidden", 2, 3, "tanh", 9), ("output", 3, 1, "logistic", 4)]
    assert rows(found["hidden"])[1] == ("weight", 3.0, 4.0, 5.0) and rows(found["units"])[-1] == (INTERCEPT, 0.25)


def test_the_models_of_dataflow_operators() -> None:
    iterations = {name: np.ones(2) for name in ("epoch", "items", "loss", "accuracy", "l1_norm")}
    found = GlobalGradient.tables([{"model": np.array([0.0, 1.0, 2.0, 3.0]), **iterations}], SCHEMA)
    assert rows(found["model"]) == [("height", 1.0), ("weight", 2.0), (INTERCEPT, 3.0)]
    assert len(found["iterations"]) == 2
    sparse = GlobalModel.tables([{"model": np.array([0.0, 1.0, -2.0])}], SCHEMA)["model"]
    assert rows(sparse) == [(2, -2.0), (1, 1.0)] and "3 parameters" in sparse.note


def part(estimate: float, variance: float, deviations: float = 2.0) -> dict[str, np.ndarray]:
    reach = deviations * variance**0.5
    interval = np.array([max(estimate - reach, 0.0), estimate + reach])
    return {"estimate": np.array([estimate]), "variance": np.array([variance]), "interval": interval}


def test_the_parts_of_a_join_add_up() -> None:
    table = RippleJoin.tables([part(100.0, 9.0), part(50.0, 16.0)], Schema())["join"]
    assert rows(table) == [pytest.approx((150.0, 140.0, 160.0, 25.0))]
    assert rows(RippleJoin.tables([part(7.0, 0.0)], Schema())["join"]) == [(7.0, 7.0, 7.0, 0.0)]


def test_results_of_ones_own_are_columns_where_they_have_one_length() -> None:
    arrays = {"ports": np.array([80, 443]), "counts": np.array([3, 4]), "at": np.zeros((2, 2))}
    (table,) = DataflowOperator.tables([arrays], Schema()).values()
    assert list(table.columns) == ["ports", "counts", "at0", "at1"]
    (both,) = Sink.tables([arrays, arrays], Schema()).values()
    assert both.columns["task"].tolist() == [0, 0, 1, 1]
    apart = DataflowOperator.tables([{"a": np.zeros(3), "b": np.zeros((2, 2)), "c": np.array(5.0)}], Schema())
    assert [(name, len(table)) for name, table in apart.items()] == [("a", 3), ("b", 2), ("c", 1)]
    assert DataflowOperator.tables([], Schema()) == {} == DataflowOperator.tables([{}], Schema())


def test_bytes_of_ones_own_are_text() -> None:
    words = np.array([b"ab", "é".encode(), b"\xff", b""])
    (table,) = plain_tables([{"word": words, "count": np.arange(4)}]).values()
    assert table.columns["word"].tolist() == ["ab", "é", "\\xff", ""]


def test_columns_have_one_length() -> None:
    with pytest.raises(ValueError, match="one length"):
        Table({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="several lengths"):
        DataflowOperator.window_columns("any", {"a": np.zeros(2), "b": np.zeros(3)})


@pytest.mark.parametrize("count", [0, 1, 3])
def test_arrays_of_any_number_of_rows_are_columns(count: int) -> None:
    pairs = np.dtype([("at", "<i8"), ("corners", "<f8", (2, 2))])
    found = plain_tables([{"key": np.arange(count), "value": np.ones((count, 2)), "pair": np.zeros(count, pairs)}])
    corners = [f"pair.corners{number}" for number in range(4)]
    assert list(found["result"].columns) == ["key", "value0", "value1", "pair.at", *corners]
    assert len(found["result"]) == count


def test_no_column_takes_the_place_of_another_of_its_name() -> None:
    fields = np.array([(5, 6)], np.dtype([("a", "<i8"), ("b", "<i8")]))
    given = {
        "x": np.array([[1, 2]]),
        "x0": np.array([3]),
        "x_1": np.array([4]),
        "s": fields,
        "s.b": np.array([7]),
        "y1": np.arange(11).reshape(1, 11),
        "y": np.arange(20, 33).reshape(1, 13),
    }
    found = plain_columns(given)
    assert [column.tolist() for column in found.values()] == [
        [n] for n in (1, 2, 3, 4, 5, 6, 7, *range(11), *range(20, 33))
    ]
    assert list(found)[:7] == ["x__0", "x__1", "x0", "x_1", "s_.a", "s_.b", "s.b"]
    assert list(plain_columns({"x": np.zeros((1, 1)), "x0": np.ones(1)})) == ["x_0", "x0"]


@pytest.mark.parametrize("lengths", [(2, 2), (2, 3)])
def test_tasks_without_results_hide_no_other_tasks(lengths: tuple[int, int]) -> None:
    task = {name: np.arange(count) for name, count in zip("ab", lengths)}
    for results, number in (([task, {}], 0), ([{}, task], 1), ([{}, task, {}], 1)):
        found = plain_tables(results)
        assert list(found) == (["result"] if lengths == (2, 2) else ["a", "b"])
        for table in found.values():
            assert set(table.columns["task"].tolist()) == {number}
    assert plain_tables([{}, {}]) == {} == plain_tables([])


@pytest.mark.parametrize("empty", [np.zeros(0), np.zeros((0, 0)), np.zeros((0, 3))])
def test_a_task_without_rows_need_not_know_how_wide_they_are(empty: np.ndarray) -> None:
    task = {"key": np.array([7, 8]), "x": np.array([[1, 2], [3, 4]])}
    nothing = {"key": np.zeros(0, np.int64), "x": empty}
    for results, number in (([nothing, task], 1), ([task, nothing], 0)):
        found = plain_tables(results)["result"]
        assert rows(found) == [(number, 7, 1, 2), (number, 8, 3, 4)]
        assert found.columns["x1"].dtype == np.int64
    assert len(plain_tables([nothing, nothing])["result"]) == 0
    windows = [plain_columns(one) for one in (nothing, task, nothing)]
    assert rows(DataflowOperator.whole("any", windows)) == [(7, 1, 2), (8, 3, 4)]
    assert len(DataflowOperator.whole("any", windows[:1])) == 0 == len(DataflowOperator.whole("any", []))


def test_results_that_only_some_tasks_have_are_tables_too() -> None:
    found = plain_tables([{"a": np.zeros(1), "b": np.zeros(1)}, {"b": np.ones(1), "c": np.ones(1)}])
    assert {name: table.columns["task"].tolist() for name, table in found.items()} == {"a": [0], "b": [0, 1], "c": [1]}
