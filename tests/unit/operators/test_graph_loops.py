"""Loops over graphs beside SciPy and a plain power method, with tasks that hear each other in any order, and die."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

from riprap.codec.errors import DataError
from riprap.operators.dataflow import Items
from riprap.operators.graphs.components import ConnectedComponents
from riprap.operators.graphs.pagerank import PageRank
from riprap.operators.graphs.read_edges import ReadEdges
from riprap.operators.graphs.shortest_paths import ShortestPaths
from riprap.operators.iteration.supersteps import Iteration
from tests.unit.operators.dataflow_harness import Outbox, input_items
from tests.unit.operators.loop_harness import FAULTS, Ring

VERTICES = 60


def edges(seed: int, count: int = 90) -> np.ndarray:
    """Random edges (from, to, length); all vertices have one."""
    rng = np.random.default_rng(seed)
    pairs = np.column_stack([rng.integers(0, VERTICES, (count, 2)), rng.integers(1, 9, count)])
    cycle = np.arange(VERTICES)
    return np.concatenate([pairs, np.column_stack([cycle, cycle // 10 * 10 + (cycle + 1) % 10, cycle % 5 + 3])])


def ring(
    make: Callable[[], Iteration], table: np.ndarray, tasks: int, undirected: bool = False, fault: str = ""
) -> Ring:
    """After two windows, of a part of the edges each."""
    made = Ring(make, tasks, 5, fault)
    for epoch, part in enumerate((table[: len(table) // 3], table[len(table) // 3 :]), 1):
        read, out = ReadEdges(undirected), Outbox(tasks)
        lines = [b" ".join(b"%d" % number for number in row) for row in part]
        offsets = np.cumsum([0, *map(len, lines)])
        read.process_data(
            input_items(epoch, np.frombuffer(b"".join(lines), np.uint8), offsets, count=len(lines)), 0, out
        )
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


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("delta", [False, True])
def test_components_are_those_of_scipy(delta: bool, tasks: int, fault: str) -> None:
    table = edges(1, 4)
    found = ring(lambda: ConnectedComponents(delta), table, tasks, True, fault).values()
    count, labels = connected_components(matrix(table), directed=False)
    assert count > 1 and len(np.unique(found)) == count
    assert (found == [np.flatnonzero(labels == label).min() for label in labels]).all()


def test_a_delta_iteration_speaks_less() -> None:
    path = np.column_stack([np.arange(VERTICES - 1), np.arange(1, VERTICES), np.ones(VERTICES - 1, int)])
    bulk, delta = (ring(lambda d=d: ConnectedComponents(d), path, 3, True) for d in (False, True))
    assert (bulk.values() == delta.values()).all()
    assert delta.messages < bulk.messages


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tasks", [1, 3])
def test_paths_are_those_of_dijkstra(tasks: int, fault: str) -> None:
    table = edges(2, 6)
    found = ring(lambda: ShortestPaths(source=7), table, tasks, fault=fault).values()
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


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tasks", [1, 3])
def test_ranks_are_those_of_the_power_method(tasks: int, fault: str) -> None:
    table = edges(3)
    table = table[table[:, 0] % 10 != 4]  # some vertices have no edges of their own
    found = ring(PageRank, table, tasks, fault=fault).values()
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(found, power_method(table), rtol=1e-7)


def test_tasks_that_die_say_the_same_again_bit_for_bit() -> None:
    calm, disturbed = (ring(PageRank, edges(3), 3, fault=fault) for fault in ("", "deaths"))
    assert calm.values().tobytes() == disturbed.values().tobytes()
    assert calm.blocks == disturbed.blocks


@pytest.mark.parametrize("lines", [b"1 2 3 4", b"one two", b"1", b"-1 2", b"1.5 2"])
def test_lines_that_are_no_edges_are_named(lines: bytes) -> None:
    items = input_items(1, np.frombuffer(lines, np.uint8), np.array([0, len(lines)]), count=1)
    with pytest.raises(DataError, match="no list of edges"):
        ReadEdges().process_data(items, 0, Outbox(2))


@pytest.mark.parametrize(("line", "bipartite"), [(b"9007199254740993 1", False), (b"1 4503599627370496", True)])
def test_a_vertex_that_float64_may_take_for_another_is_refused(line: bytes, bipartite: bool) -> None:
    items = input_items(1, np.frombuffer(line, np.uint8), np.array([0, len(line)]), count=1)
    with pytest.raises(DataError, match=r"the vertex 900719925474099\d.* is not between -2\^53 and 2\^53"):
        ReadEdges(bipartite=bipartite).process_data(items, 0, Outbox(2))


def test_every_task_ends_each_superstep_with_one_block_to_each_other() -> None:
    made = ring(lambda: PageRank(supersteps=5, tolerance=0.0), edges(3), 3)
    assert made.blocks == 2 * 5 * 3 * 2  # windows, supersteps, tasks, others
