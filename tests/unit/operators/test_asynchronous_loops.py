"""Loops without supersteps beside SciPy, with tasks that hear each other in any order, and die; and their end."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra

from riprap.codec.errors import DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.graphs.asynchronous_paths import AsynchronousPaths
from riprap.operators.graphs.shortest_paths import ShortestPaths
from riprap.operators.graphs.vertices import VERTEX
from riprap.operators.iteration.asynchronous import ASK, END, WORK
from riprap.operators.keyed import shares
from tests.unit.operators.dataflow_harness import Outbox
from tests.unit.operators.loop_harness import Ring

VERTICES = 60
Kind = type[AsynchronousPaths] | type[ShortestPaths]


def edges(seed: int, count: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, VERTICES, (count, 2)), rng.integers(1, 9, count)])


def ring(table: np.ndarray, tasks: int, seed: int, fault: str = "", kind: Kind = AsynchronousPaths) -> Ring:
    """After two windows, of half the edges each; all vertices are there from the first."""
    made = Ring(lambda: kind(source=7), tasks, seed, fault)
    there = np.column_stack([np.arange(VERTICES), np.full(VERTICES, VERTEX), np.zeros(VERTICES)])
    half = len(table) // 2
    for epoch, part in enumerate((np.concatenate([there, table[:half]]), table[half:]), 1):
        for share in shares(part[:, 0].astype(np.int64), list(part.T[1:].astype(float)), tasks):
            made.tasks[share.task].process(Items(epoch, "read", 0, share.items, share.arrays))
        made.loop(epoch)
        assert not any(task.operator.state.came for task in made.tasks), "nothing is left over"
    return made


@pytest.mark.parametrize("kind", [AsynchronousPaths, ShortestPaths])
@pytest.mark.parametrize("length", [-1.0, np.nan])
def test_a_length_that_paths_could_get_shorter_by_is_refused(kind: Kind, length: float) -> None:
    """A cycle of them never ended."""
    with pytest.raises(DataError, match=f"the edge from 7 to 3 has the length {length:g}"):
        ring(np.array([[3, 7, 1.0], [7, 3, length]]), 2, 1, kind=kind)


def truth(table: np.ndarray) -> np.ndarray:
    least: dict[tuple[int, int], int] = {}
    for start, end, length in table.tolist():
        least[start, end] = min(length, least.get((start, end), length))
    starts, ends = zip(*least, strict=True)
    return dijkstra(coo_matrix((list(least.values()), (starts, ends)), (VERTICES, VERTICES)), indices=7)


@pytest.mark.parametrize("fault", ["", "deaths"])
@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_paths_are_those_of_dijkstra_in_any_order(tasks: int, fault: str) -> None:
    for seed in range(30):
        table = edges(seed)
        found = ring(table, tasks, seed, fault).values()
        assert (found == truth(table)).all(), f"seed {seed}"


def test_the_order_of_blocks_decides_what_is_sent_and_not_what_comes_out() -> None:
    table = edges(3, 120)
    made = [ring(table, 3, seed) for seed in range(10)]
    assert all((one.values() == truth(table)).all() for one in made)
    sent = {sum(task.operator.metrics()["messages"] for task in one.tasks) for one in made}
    assert len(sent) > 1


def test_paths_within_a_part_are_followed_without_a_word() -> None:
    """Parts in supersteps tell each other every step; without them, only what leaves a part."""
    path = np.column_stack([np.arange(VERTICES - 1), np.arange(1, VERTICES), np.ones(VERTICES - 1, int)])
    loop, steps = (ring(path, 2, 5, kind=kind) for kind in (AsynchronousPaths, ShortestPaths))
    assert (loop.values() == steps.values()).all()
    owners = np.zeros(VERTICES, int)
    for share in shares(np.arange(VERTICES), (np.arange(VERTICES),), 2):
        owners[share.arrays[1]] = share.task
    half = (VERTICES - 1) // 2
    crossings = sum(int((owners[7:end] != owners[8 : end + 1]).sum()) for end in (half, VERTICES - 1))
    assert sum(task.operator.metrics()["messages"] for task in loop.tasks) == crossings


def started(index: int, tasks: int = 3) -> tuple[AsynchronousPaths, Outbox]:
    made, out = AsynchronousPaths(source=7), Outbox(tasks)
    made.open(Context(index=index, parallelism=tasks))
    return made, out


def said(out: Outbox) -> list[tuple[int, int, tuple[int, ...]]]:
    """To whom, of which kind, with which counts; and forgotten."""
    found = [(to or 0, int(arrays[0][1]), tuple(arrays[0][2:].tolist())) for arrays, _, to, _ in out.fed_back]
    out.fed_back.clear()
    return found


def block(task: int, kind: int, *counts: int, window: int = 1) -> Items:
    header = np.array([window, kind, *counts, *[0] * (2 - len(counts))], np.int64)
    messages = (np.zeros(0, np.int64), np.zeros(0)) if kind == WORK else ()
    return Items(window, "loop", task, 0, (header, *messages))


def test_a_task_that_has_not_begun_answers_later() -> None:
    """What it will send is in no count yet."""
    made, out = started(1)
    made.process_feedback(block(0, ASK), out)
    made.process_feedback(block(2, WORK), out)
    assert said(out) == []
    made.process_punctuation(1, out)
    assert said(out) == [(0, 2, (0, 0))], "in their order: it was asked before the block came"
    made.process_feedback(block(0, ASK), out)
    assert said(out) == [(0, 2, (0, 1))]


@pytest.mark.parametrize(
    ("waves", "asked"),
    [
        ([(0, 0), (0, 0)], 2),
        ([(3, 2), (3, 3), (3, 3)], 3),
        ([(3, 3), (4, 4), (4, 4)], 3),
        ([(3, 3), (4, 3), (4, 4), (4, 4)], 4),
    ],
)
def test_the_loop_ends_when_as_much_was_taken_in_as_was_sent_twice_in_a_row(
    waves: list[tuple[int, int]], asked: int
) -> None:
    made, out = started(0)
    made.process_punctuation(1, out)
    for number, (sent, taken) in enumerate(waves, 1):
        assert made.iterating and [(to, kind) for to, kind, _ in said(out)] == [(1, ASK), (2, ASK)]
        made.process_feedback(block(1, 2, sent, 0), out)
        assert said(out) == [], "one answer is not all"
        made.process_feedback(block(2, 2, 0, taken), out)
        assert made.iterating == (number < asked)
    assert [(to, kind) for to, kind, _ in said(out)] == [(1, END), (2, END)]


def test_blocks_of_several_windows_may_wait_and_each_for_its_own() -> None:
    """A task that begins again hears all that its peers have said since, before it has closed a window."""
    made, out = started(1)
    for window, task, kind in [(1, 0, ASK), (2, 2, WORK), (1, 2, WORK), (1, 0, END), (2, 2, WORK)]:
        made.process_feedback(block(task, kind, window=window), out)
    made.process_punctuation(1, out)
    assert not made.iterating and said(out) == [(0, 2, (0, 0))]
    made.process_feedback(block(2, WORK, window=2), out)
    made.process_feedback(block(2, WORK), out)  # of a window that has ended here
    made.process_feedback(block(0, ASK, window=2), out)
    made.process_punctuation(2, out)
    assert said(out) == [(0, 2, (0, 3))], "none has taken another's place, and none was lost"
    assert not made.state.came


def test_blocks_of_the_next_window_wait_for_it() -> None:
    made, out = started(1)
    made.process_punctuation(1, out)
    made.process_feedback(block(2, WORK, window=2), out)
    made.process_feedback(block(0, END), out)
    assert not made.iterating and said(out) == []
    made.process_punctuation(2, out)
    made.process_feedback(block(0, ASK, window=2), out)
    assert said(out) == [(0, 2, (0, 1))]
