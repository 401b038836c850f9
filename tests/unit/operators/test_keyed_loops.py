"""Loops of a user's own functions beside SciPy; what they return wrongly is named, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.dataflow import Items
from riprap.operators.iteration.delta_iterate import DeltaIterate
from riprap.operators.iteration.iterate import Iterate
from riprap.operators.iteration.keyed_loop import KeyedLoop
from riprap.operators.iteration.keyed_step import KeyedStep
from riprap.operators.keyed import shares
from riprap.operators.returns import WrongReturn
from tests.unit.operators.loop_harness import FAULTS, Ring

HERE = f"{__name__}:"
VERTICES = 40
PATH = np.column_stack([np.arange(VERTICES - 1), np.arange(1, VERTICES)])


def first(rows: np.ndarray) -> Any:
    keys = np.unique(rows[:, 0]).astype(np.int64)
    return keys, keys


def told(rows: np.ndarray) -> Any:
    """Each vertex tells its neighbours its number."""
    return rows[:, 1].astype(np.int64), rows[:, 0]


def lower(at: KeyedStep) -> Any:
    """All speak in each superstep; the part says how many values have changed."""
    values = np.minimum(at.values, at.least())
    rows, places = at.rows_of(np.ones(len(at.keys), bool))
    return values, (rows[:, 1].astype(np.int64), values[places]), (values < at.values).sum()


def lower_of_changed(at: KeyedStep) -> Any:
    """Only those speak that have changed."""
    changed = at.least() < at.values
    values = np.where(changed, at.least(), at.values)
    rows, places = at.rows_of(changed)
    return values, (rows[:, 1].astype(np.int64), values[places])


def nothing_changed(total: np.ndarray) -> bool:
    return bool(total[0] == 0)


def greatest(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.maximum(one, other)


def bulk() -> Iterate:
    return Iterate(step=f"{HERE}lower", first=f"{HERE}first", until=f"{HERE}nothing_changed")


def delta() -> DeltaIterate:
    return DeltaIterate(step=f"{HERE}lower_of_changed", solution=f"{HERE}first", workset=f"{HERE}told")


class Halving(Iterate):
    """Each value is halved until the greatest of all is below 1; there are no messages."""

    def __init__(self, supersteps: int = 1000) -> None:
        super().__init__(supersteps=supersteps)

    def first(self, rows: np.ndarray) -> Any:
        return rows[:, 0].astype(np.int64), rows[:, 1]

    def step(self, at: KeyedStep) -> Any:
        values = at.values / 2
        return values, None, max(values, default=0.0)

    def combine(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.maximum(one, other)

    def until(self, total: np.ndarray) -> bool:
        return bool(total[0] < 1)


def ring(make: Callable[[], KeyedLoop], rows: np.ndarray, tasks: int, fault: str = "", windows: int = 1) -> Ring:
    """After windows of a part of the rows each, dealt by key."""
    made = Ring(make, tasks, 5, fault)
    for epoch, part in enumerate(np.array_split(rows.astype(float), windows), 1):
        for share in shares(part[:, 0].astype(np.int64), list(part.T[1:]), tasks):
            made.tasks[share.task].process(Items(epoch, "read", 0, share.items, share.arrays))
        made.loop(epoch)
    return made


def values_of(made: Ring) -> dict[int, float]:
    found: dict[int, float] = {}
    for task in made.tasks:
        results = task.operator.results()
        assert not found.keys() & set(results["keys"].tolist())
        found |= dict(zip(results["keys"].tolist(), results["values"].tolist(), strict=True))
    return found


def both_ways(table: np.ndarray) -> np.ndarray:
    return np.stack([table, table[:, ::-1]], axis=1).reshape(-1, 2)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("make", [bulk, delta])
def test_components_are_those_of_scipy(make: Callable[[], KeyedLoop], tasks: int, fault: str) -> None:
    table = np.random.default_rng(4).integers(0, VERTICES, (30, 2))
    made = ring(make, both_ways(table), tasks, fault, windows=2)
    graph = coo_matrix((np.ones(len(table)), table.T), (VERTICES, VERTICES))
    labels = connected_components(graph, directed=False)[1]
    there = np.unique(table)
    truth = {key: np.flatnonzero(labels == labels[key]).min() for key in there.tolist()}
    assert len(set(truth.values())) > 2 and values_of(made) == truth


def test_a_delta_iteration_sends_only_what_has_changed() -> None:
    one, other = (ring(make, both_ways(PATH), 3) for make in (bulk, delta))
    assert values_of(one) == values_of(other) == dict.fromkeys(range(VERTICES), 0.0)
    edges = 2 * (VERTICES - 1)
    spoken = [sum(task.operator.metrics()["messages"] for task in made.tasks) for made in (one, other)]
    supersteps = one.tasks[0].operator.metrics()["supersteps"]
    assert spoken[0] == edges * supersteps and supersteps == VERTICES + 1
    degrees = [1, *[2] * (VERTICES - 2), 1]
    assert spoken[1] == edges + sum(vertex * degrees[vertex] for vertex in range(VERTICES)), "vertex v changes v times"
    assert other.messages < one.messages


def test_a_superstep_of_a_delta_iteration_touches_only_keys_that_have_messages() -> None:
    seen: list[int] = []

    class Noting(DeltaIterate):
        def solution(self, rows: np.ndarray) -> Any:
            return first(rows)

        def workset(self, rows: np.ndarray) -> Any:
            """Key 0 alone says something."""
            return told(rows[rows[:, 0] == 0])

        def step(self, at: KeyedStep) -> Any:
            seen.append(len(at.keys))
            assert (np.unique(at.messages.keys) == at.keys).all() and len(at.rows) == VERTICES
            return lower_of_changed(at)

    made = ring(Noting, np.concatenate([PATH, [[VERTICES - 1, 0]]]), 1)
    assert seen == [1] * VERTICES and values_of(made)[VERTICES - 1] == 0


def test_a_loop_ends_when_its_criterion_says_so_or_at_its_maximum() -> None:
    rows = np.column_stack([np.arange(6), [1, 3, 5, 100, 2, 1]])
    made = ring(Halving, rows, 3)
    assert values_of(made)[3] == 100 / 2**7 and made.tasks[1].operator.metrics()["supersteps"] == 7
    assert values_of(ring(lambda: Halving(4), rows, 3))[3] == 100 / 2**4


def test_parts_of_the_total_may_be_joined_by_a_function() -> None:
    class AddedUp(Halving):
        combine = KeyedLoop.combine

    rows = np.column_stack([np.arange(6), np.full(6, 1.5)])
    steps = [ring(make, rows, 3).tasks[0].operator.metrics()["supersteps"] for make in (Halving, AddedUp)]
    assert steps == [2, 3], "it is asked after the second superstep at the soonest; three parts are more than one"


def test_messages_may_be_rows_and_are_summed_by_key() -> None:
    class Pairs(Iterate):
        def __init__(self) -> None:
            super().__init__(width=2)

        def first(self, rows: np.ndarray) -> Any:
            keys = np.unique(rows[:, 0]).astype(np.int64)
            return keys, np.zeros((len(keys), 2))

        def step(self, at: KeyedStep) -> Any:
            if at.number:
                return at.sums(), None
            ends = at.rows[:, 1].astype(np.int64)
            return at.values, (ends, np.column_stack([np.ones(len(ends)), at.rows[:, 0]]))

    made = ring(Pairs, both_ways(np.array([[0, 1], [0, 2], [1, 2]])), 3)
    assert values_of(made) == {0: [2.0, 3.0], 1: [2.0, 2.0], 2: [2.0, 1.0]}


class Wrong(Iterate):
    """Returns what a test wants."""

    made: Any = None
    begins: Any = staticmethod(first)

    def first(self, rows: np.ndarray) -> Any:
        return self.begins(rows)

    def step(self, at: KeyedStep) -> Any:
        return self.made(at)


KEYS = np.arange(3)
WRONG = {
    "no pair": (lambda at: at.values, "Wrong.step returned an array .*; expected new values and messages"),
    "too few": (lambda at: (at.values[1:], None), r"values of shape \(2,\); expected a value for each of the 3 keys"),
    "keys": (lambda at: (at.values, (KEYS * 1.0, KEYS)), r"(?s)keys as an array of float64.*keys.astype\(np.int64\)"),
    "lengths": (lambda at: (at.values, (KEYS, [1.0])), r"values of shape \(1,\); expected a value for each of the 3"),
    "text": (lambda at: (at.values, (KEYS, ["a", "b", "c"])), "values as .*; expected numbers"),
    "width": (lambda at: (at.values, (KEYS, np.ones((3, 2)))), r"(?s)shape \(3, 2\).*Set the option width to 2"),
    "part": (lambda at: (at.values, None, np.ones((2, 2))), r"a part of shape \(2, 2\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_return_is_named_with_its_place(case: str) -> None:
    made, words = WRONG[case]
    kind = type("Wrong", (Wrong,), {"made": staticmethod(made), "__module__": __name__})
    with pytest.raises(WrongReturn, match=words) as caught:
        ring(kind, np.array([[0, 1], [1, 2], [2, 0]]), 1)
    assert "test_keyed_loops.py:" in str(caught.value)


def test_a_function_is_named_by_its_own_place() -> None:
    line = short.__code__.co_firstlineno
    with pytest.raises(WrongReturn, match=rf"^short returned values of shape .*test_keyed_loops.py:{line}"):
        ring(lambda: Iterate(step=f"{HERE}lower", first=f"{HERE}short"), PATH, 1)


def short(rows: np.ndarray) -> Any:
    return np.arange(3), np.zeros(2)


def test_wrong_keys_are_named() -> None:
    for begins, words in (
        (lambda rows: (np.array([1, 1]), np.zeros(2)), "key 1 more than once"),
        (lambda rows: (np.zeros((1, 1), int), np.zeros(1)), "one row of int64"),
    ):
        kind = type("Wrong", (Wrong,), {"begins": staticmethod(begins), "__module__": __name__})
        with pytest.raises(WrongReturn, match=words):
            ring(kind, PATH, 1)
    with pytest.raises(DataError, match="message to key 39, which has no value"):
        ring(bulk, PATH, 1)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64])
def test_keys_that_float64_may_take_for_another_are_refused(dtype: type) -> None:
    made = Ring(bulk, 1, 5)
    with pytest.raises(DataError, match=r"900719925474099\d.* is not between -2\^53 and 2\^53"):
        made.tasks[0].process(Items(1, "read", 0, 2, (np.array([[2**53 + 1, 1], [1, 2**53 + 1]], dtype),)))
        made.loop(1)


def test_rows_that_were_not_dealt_by_key_are_refused() -> None:
    made = Ring(bulk, 2, 5)
    made.tasks[0].process(Items(1, "read", 0, len(PATH), (both_ways(PATH).astype(float),)))
    with pytest.raises(DataError, match=r"(?s)key \d+ is one of task 1 and has rows at task 0.*out.send_by_key"):
        made.loop(1)


def test_functions_that_lack_or_come_twice_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)Iterate has no first.*option first \(my_module:first\)"):
        Iterate(step=f"{HERE}lower")
    with pytest.raises(ConfigError, match="DeltaIterate has no step"):
        DeltaIterate(solution=f"{HERE}first", workset=f"{HERE}told")

    class Twice(Halving):
        def __init__(self) -> None:
            Iterate.__init__(self, step=f"{HERE}lower")

    with pytest.raises(ConfigError, match="Twice has a method step, and an option too"):
        Twice()
    with pytest.raises(ConfigError, match="has no lowre"):
        Iterate(step=f"{HERE}lowre", first=f"{HERE}first")
    with pytest.raises(ConfigError, match="Ring is no function"):
        Iterate(step=f"{HERE}Ring", first=f"{HERE}first")
    with pytest.raises(ConfigError, match="the option columns is 0"):
        Halving.__base__(columns=0)  # type: ignore[misc]


def test_results_are_a_table_by_key_though_a_task_has_none() -> None:
    made = ring(bulk, both_ways(np.array([[4, 5]])), 3)
    table = KeyedLoop.tables([task.operator.results() for task in made.tasks], None)["values"]  # type: ignore[arg-type]
    assert {name: column.tolist() for name, column in table.columns.items()} == {"key": [4, 5], "value": [4.0, 4.0]}
