"""Approximate top-N beside a sum over all rows, with rows dealt in any way and tasks that die."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.dataflow import Items
from riprap.operators.iteration.read_rows import ReadRows
from riprap.operators.iteration.top_n import TopN
from riprap.operators.tables import Schema
from tests.unit.operators.dataflow_harness import Outbox, input_items
from tests.unit.operators.loop_harness import FAULTS, Ring

KEYS = 3000


def rows(seed: int, count: int = 6000) -> np.ndarray:
    """(count, key): Zipf's keys with counts from 1 to 9."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(1, 10, count), rng.zipf(1.3, count) % KEYS])


def ring(table: np.ndarray, tasks: int, fault: str = "", **options: float) -> Ring:
    """After two windows, of a part of the rows each."""
    made = Ring(lambda: TopN(key=1, count=0, **options), tasks, 7, fault)  # type: ignore[arg-type]
    for epoch, part in enumerate((table[: len(table) // 3], table[len(table) // 3 :]), 1):
        for number, task in enumerate(made.tasks):
            mine = part[number::tasks]
            task.process(Items(epoch, "read", 0, len(mine), (mine,)))
        made.loop(epoch)
    return made


def sums_of(table: np.ndarray) -> np.ndarray:
    """Of each key."""
    return np.bincount(table[:, 1], table[:, 0], KEYS)


def found_by(made: Ring) -> dict[str, np.ndarray]:
    """What all tasks found."""
    one, *others = (task.operator.results() for task in made.tasks)
    assert all(one[name].tobytes() == other[name].tobytes() for other in others for name in one)
    return one


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("error", [0.0, 0.1])
def test_no_key_that_is_left_out_has_more_than_the_error_allows(tasks: int, fault: str, error: float) -> None:
    for seed in range(5):
        table = rows(seed)
        truth, found = sums_of(table), found_by(ring(table, tasks, fault, n=8, error=error))
        assert len(found["keys"]) == 8
        left_out = np.delete(truth, found["keys"]).max()
        assert left_out <= (1 + error) * truth[found["keys"]].min()
        short = truth[found["keys"]] - found["sums"]
        assert (short >= 0).all() and (short <= found["missing"][0]).all()
        assert (np.diff(found["sums"]) <= 0).all()


def test_a_greater_error_takes_fewer_messages() -> None:
    table = rows(1)
    exact, rough = ring(table, 3, n=8, error=0.0), ring(table, 3, n=8, error=0.5)
    assert rough.messages < exact.messages < len(np.unique(table[:, 1]))


def test_fewer_keys_than_n_are_all_told() -> None:
    table = np.array([[4, 7], [1, 3], [2, 7], [1, 5]])
    found = found_by(ring(table, 3, n=5))
    assert found["keys"].tolist() == [7, 3, 5] and found["sums"].tolist() == [6, 1, 1] and found["missing"] == 0
    assert not len(found_by(ring(table[:0], 2))["keys"])
    shown = TopN.tables([found], Schema())["top"].columns
    assert shown["key"].tolist() == [7, 3, 5] and (shown["least"] == shown["most"]).all()


def test_rows_count_themselves_without_a_column_of_counts() -> None:
    made = Ring(lambda: TopN(n=1, columns=1, count=-1), 2, 1)
    for task in made.tasks:
        task.process(Items(1, "read", 0, 3, (np.array([[4.0], [9.0], [4.0]]),)))
    made.loop(1)
    found = found_by(made)
    assert found["keys"].tolist() == [4] and found["sums"].tolist() == [4]


@pytest.mark.parametrize("row", [[1.0, 2.5], [-1.0, 2.0], [np.nan, 2.0], [1.0, np.nan]])
def test_rows_without_a_key_or_a_count_are_refused(row: list[float]) -> None:
    with pytest.raises(DataError, match="none of a top-N"):
        ring(np.array([row]), 1)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("key", [2**53 + 1, -(2**53) - 1])
def test_keys_that_float64_may_take_for_another_are_refused(key: int, dtype: type) -> None:
    """2^53 and 2^53 + 1 were one key."""
    with pytest.raises(DataError, match=rf"{str(key)[:-1]}\d.* is not between -2\^53 and 2\^53"):
        ring(np.array([[1, key]], dtype), 1)


def test_columns_that_are_not_there_are_refused() -> None:
    for options in ({"key": 2}, {"count": 2}):
        with pytest.raises(ConfigError, match="no column 2"):
            TopN(**options)


def lines(text: bytes) -> Outbox:
    out = Outbox()
    rows = text.split(b"\n")
    offsets = np.cumsum([0, *map(len, rows)])
    ReadRows().process_data(input_items(1, np.frombuffer(b"".join(rows), np.uint8), offsets, count=len(rows)), 0, out)
    return out


def test_lines_are_read_as_rows() -> None:
    ((arrays, count, to, _),) = lines(b"1 2\n \n3.5\t4").sent
    assert arrays[0].tolist() == [[1, 2], [3.5, 4]] and count == 2 and to is None
    assert lines(b" ").sent == []
    for wrong in (b"1 2 3", b"1 2\n3", b"a b"):
        with pytest.raises(DataError, match="no list of rows"):
            lines(wrong)
