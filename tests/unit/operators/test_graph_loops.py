"""Loops over graphs beside SciPy and a plain power method, with tasks that hear each other in any order, and die."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

from riprap.codec.errors import DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.graphs.components import ConnectedComponents
from riprap.operators.graphs.pagerank import PageRank
from riprap.operators.graphs.read_edges import ReadEdges
from riprap.operators.graphs.shortest_paths import ShortestPaths
from riprap.operators.iteration.supersteps import Iteration
from tests.unit.operators.dataflow_harness import Outbox, Task, input_items

VERTICES = 60


class Ring:
    """The tasks of one stage with a loop; blocks are delivered in a random order, in order from task to task."""

    def __init__(self, make: Callable[[], Iteration], tasks: int, seed: int, deaths: bool = False) -> None:
        self.tasks = [Task(make, Context(index=i, parallelism=tasks), np.inf) for i in range(tasks)]
        self.links = {(i, j): deque[Items]() for i in range(tasks) for j in range(tasks)}
        self.random, self.deaths, self.blocks, self.messages = random.Random(seed), deaths, 0, 0

    def loop(self, epoch: int) -> None:
        """Close a window in all tasks, which ends its loop."""
        waiting = list(range(len(self.tasks)))
        self.random.shuffle(waiting)
        while waiting or any(self.links.values()):
            busy = [key for key, link in self.links.items() if link]
            if waiting and (not busy or self.random.random() < 0.3):
                self._closed(waiting.pop(), epoch)
            else:
                sender, to = self.random.choice(busy)
                block = self.links[sender, to].popleft()
                self.tasks[to].operator.process_feedback(block, self.tasks[to].out)
                self._after(to, epoch)
        assert not any(task.operator.iterating for task in self.tasks)

    def _closed(self, index: int, epoch: int) -> None:
        self.tasks[index].operator.process_punctuation(epoch, self.tasks[index].out)
        self._after(index, epoch)

    def _after(self, index: int, epoch: int) -> None:
        task = self.tasks[index]
        for arrays, count, to, _ in task.out.fed_back:
            assert to is not None and to != index
            self.links[index, to].append(Items(epoch, "loop", index, count, tuple(arrays)))
            self.blocks, self.messages = self.blocks + 1, self.messages + count
        task.out.fed_back.clear()
        if self.deaths and self.random.random() < 0.2:
            task.back_up()
            task.fail()

    def values(self) -> np.ndarray:
        """The value of each vertex."""
        found = [task.operator.results() for task in self.tasks]
        vertices, values = (np.concatenate([one[name] for one in found]) for name in ("vertices", "values"))
        assert (np.sort(vertices) == np.unique(vertices)).all(), "each vertex has one task"
        return values[np.argsort(vertices)]


def edges(seed: int, count: int = 90) -> np.ndarray:
    """Random edges (from, to, length); all vertices have one."""
    rng = np.random.default_rng(seed)
    pairs = np.column_stack([rng.integers(0, VERTICES, (count, 2)), rng.integers(1, 9, count)])
    cycle = np.arange(VERTICES)
    return np.concatenate([pairs, np.column_stack([cycle, cycle // 10 * 10 + (cycle + 1) % 10, cycle % 5 + 3])])


def ring(
    make: Callable[[], Iteration], table: np.ndarray, tasks: int, undirected: bool = False, deaths: bool = False
) -> Ring:
    """After two windows, of a part of the edges each."""
    made = Ring(make, tasks, 5, deaths)
    for epoch, part in enumerate((table[: len(table) // 3], table[len(table) // 3 :]), 1):
        read, out = ReadEdges(undirected), Outbox(tasks)
        lines = [b" ".join(b"%d" % number for number in row) for row in part]
        offsets = np.cumsum([0, *map(len, lines)])
        read.process_data(input_items(epoch, np.frombuffer(b"".join(lines), np.uint8), offsets, count=len(lines)), 0, out)
        for arrays, count, to, _ in out.sent:
            made.tasks[to or 0].process(Items(epoch, "read", 0, count, tuple(arrays)))
        made.loop(epoch)
    return made


def matrix(table: np.ndarray) -> coo_matrix:
    """The shortest of parallel edges."""
    least: dict[tuple[int, int], int] = {}
    for start, end, length in table.tolist():
        least[start, end] = min(length, least.get((start, end), length))
    starts, ends = zip(*least, strict=True)
    return coo_matrix((list(least.values()), (starts, ends)), (VERTICES, VERTICES))


@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("delta", [False, True])
def test_components_are_those_of_scipy(delta: bool, tasks: int, deaths: bool) -> None:
    table = edges(1, 4)
    found = ring(lambda: ConnectedComponents(delta), table, tasks, True, deaths).values()
    count, labels = connected_components(matrix(table), directed=False)
    assert count > 1 and len(np.unique(found)) == count
    assert (found == [np.flatnonzero(labels == label).min() for label in labels]).all()


def test_a_delta_iteration_speaks_less() -> None:
    path = np.column_stack([np.arange(VERTICES - 1), np.arange(1, VERTICES), np.ones(VERTICES - 1, int)])
    bulk, delta = (ring(lambda d=d: ConnectedComponents(d), path, 3, True) for d in (False, True))
    assert (bulk.values() == delta.values()).all()
    assert delta.messages < bulk.messages


@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("tasks", [1, 3])
def test_paths_are_those_of_dijkstra(tasks: int, deaths: bool) -> None:
    table = edges(2, 6)
    found = ring(lambda: ShortestPaths(source=7), table, tasks, deaths=deaths).values()
    truth = dijkstra(matrix(table), indices=7)
    assert np.isinf(truth).any() and np.isfinite(truth).sum() > 10
    assert (found == truth).all()


def power_method(table: np.ndarray, damping: float = 0.85) -> np.ndarray:
    """PageRank with a dense matrix; vertices without edges give to all."""
    links = (matrix(table).toarray() > 0).astype(float)
    out = links.sum(axis=1, keepdims=True)
    chances = np.where(out > 0, links / np.maximum(out, 1), 1 / VERTICES)
    ranks = np.full(VERTICES, 1 / VERTICES)
    for _ in range(300):
        ranks = (1 - damping) / VERTICES + damping * ranks @ chances
    return ranks


@pytest.mark.parametrize("deaths", [False, True])
@pytest.mark.parametrize("tasks", [1, 3])
def test_ranks_are_those_of_the_power_method(tasks: int, deaths: bool) -> None:
    table = edges(3)
    table = table[table[:, 0] % 10 != 4]  # some vertices have no edges of their own
    found = ring(PageRank, table, tasks, deaths=deaths).values()
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(found, power_method(table), rtol=1e-7)


def test_tasks_that_die_say_the_same_again_bit_for_bit() -> None:
    calm, disturbed = (ring(PageRank, edges(3), 3, deaths=deaths) for deaths in (False, True))
    assert calm.values().tobytes() == disturbed.values().tobytes()
    assert calm.blocks == disturbed.blocks


@pytest.mark.parametrize("lines", [b"1 2 3 4", b"one two", b"1", b"-1 2", b"1.5 2"])
def test_lines_that_are_no_edges_are_named(lines: bytes) -> None:
    items = input_items(1, np.frombuffer(lines, np.uint8), np.array([0, len(lines)]), count=1)
    with pytest.raises(DataError, match="no list of edges"):
        ReadEdges().process_data(items, 0, Outbox(2))


def test_every_task_ends_each_superstep_with_one_block_to_each_other() -> None:
    made = ring(lambda: PageRank(supersteps=5, tolerance=0.0), edges(3), 3)
    assert made.blocks == 2 * 5 * 3 * 2  # windows, supersteps, tasks, others
