"""The best plan by a mixed-integer linear program, with a certified bound; needs scipy, which is an optional extra.

For operators with independent inputs OF is linear: F_t <= x_t and F_t <= sum of shares times F_u, where x_t is 1 for a
task with a replica and F_t its fidelity. A join is a product: with few MC-trees the program has one variable for each
tree and for what it is grown from, and is exact again; with many, the least of a join's streams stands for their
product, which makes the program's optimum an upper bound, and its plan one among others.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.controller.planning.fidelity import contributing, fidelity_of
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.trees import count_trees, grown_trees

PROGRAM_TREES_MAX = 3000
RELATIVE_GAP = 1e-4
SECONDS_MAX = 60.0
"""The time after which a program ends with the best plan so far, and the bound that is certain by then."""


@dataclass(frozen=True)
class Optimum:
    """The plan of a program, its OF, and a number that no plan exceeds."""

    tasks: frozenset[int]
    fidelity: float
    bound: float


def has_solver() -> bool:
    """True when scipy is installed."""
    return importlib.util.find_spec("scipy") is not None


def solve(
    graph: TaskGraph, budget: int, spared: np.ndarray | None = None, seconds_max: float = SECONDS_MAX
) -> Optimum:  # fmt: skip
    """The best plan of at most `budget` replicas where all tasks fail that are not `spared` (tasks, booleans), by
    default the free ones.

    ConfigError without scipy.
    """
    spared = graph.spared if spared is None else spared
    if _has_joins(graph) and count_trees(graph) <= PROGRAM_TREES_MAX:
        program = _of_trees(graph, budget, spared)
    else:
        program = _of_flow(graph)
    chosen, bound = program.solve(budget, spared, seconds_max)
    alive = frozenset(np.flatnonzero(chosen | spared).tolist())
    plan = contributing(graph, alive) - frozenset(np.flatnonzero(spared).tolist())
    reached = fidelity_of(graph, alive)
    return Optimum(plan, reached, max(reached, min(1.0, bound)))


def _has_joins(graph: TaskGraph) -> bool:
    return any(group.correlated and len(streams) > 1 for group, streams in zip(graph.operators, graph.inputs))


class _Program:
    """Rows `sum of coefficients times variables <= 0`; the first variables are the tasks' x, the others in [0, 1]."""

    def __init__(self, tasks: int, worth: np.ndarray) -> None:
        self._tasks, self._worth = tasks, worth
        self._rows: list[np.ndarray] = []
        self._columns: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._count = 0

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, count: int) -> None:
        """`count` further rows; `rows` counts among them."""
        self._rows.append(rows + self._count)
        self._columns.append(columns)
        self._values.append(values)
        self._count += count

    def solve(self, budget: int, spared: np.ndarray, seconds_max: float) -> tuple[np.ndarray, float]:
        """(tasks with x = 1, upper bound of the worth); without any plan within the time, no task and 1."""
        optimize, sparse = _scipy("scipy.optimize"), _scipy("scipy.sparse")
        size = len(self._worth)
        total = np.zeros((1, size))
        total[0, : self._tasks] = ~spared
        entries = (np.concatenate(self._values), (np.concatenate(self._rows), np.concatenate(self._columns)))
        matrix = sparse.vstack([sparse.coo_array(entries, shape=(self._count, size)), sparse.coo_array(total)])
        limits = np.concatenate([np.zeros(self._count), [budget]])
        with _silence():
            found = optimize.milp(
                -self._worth,
                integrality=(np.arange(size) < self._tasks).astype(int),
                bounds=optimize.Bounds(0, 1),
                constraints=optimize.LinearConstraint(matrix.tocsr(), ub=limits),
                options={"time_limit": seconds_max, "mip_rel_gap": RELATIVE_GAP},
            )
        chosen = np.zeros(self._tasks, bool) if found.x is None else found.x[: self._tasks] > 0.5
        if np.count_nonzero(chosen & ~spared) > budget:  # seen elsewhere: https://github.com/scipy/scipy/issues/24141
            chosen[:] = False
        bound = 1.0 if found.mip_dual_bound is None else -float(found.mip_dual_bound)
        return chosen, bound


_ONE_AT_A_TIME = threading.Lock()  # or one of two puts back what the other has put there


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what C code prints meanwhile: HiGHS writes a line of its own to stdout now and then, whatever it is told
    (https://github.com/jump-dev/HiGHS.jl/issues/312), and what `riprap plan --json` prints is read by programs."""
    flush = ctypes.CDLL(None).fflush
    with _ONE_AT_A_TIME, open(os.devnull, "wb") as nowhere:
        flush(None)
        stdout = os.dup(1)
        try:
            os.dup2(nowhere.fileno(), 1)
            yield
        finally:
            flush(None)
            os.dup2(stdout, 1)
            os.close(stdout)


def _scipy(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "the exact planner needs scipy, which is not installed",
            "install it: pip install 'riprap[plan]'; or use --algorithm auto, which does without",
        ) from error


def _of_flow(graph: TaskGraph) -> _Program:
    """Variables x, then F, of each task."""
    size = graph.size
    program = _Program(size, np.concatenate([np.zeros(size), graph.outputs]))
    every = np.arange(size)
    ones = np.ones(size)
    program.add(np.tile(every, 2), np.concatenate([size + every, every]), np.concatenate([ones, -ones]), size)
    for group, streams in zip(graph.operators, graph.inputs):
        local = np.arange(group.count)
        own = (local, size + group.first + local, np.ones(group.count))
        parts = [
            (stream.links.receivers - group.first, size + stream.links.senders, -stream.shares) for stream in streams
        ]
        for together in [[part] for part in parts] if group.correlated else [parts] if parts else []:
            rows, columns, values = (np.concatenate(column) for column in zip(own, *together))
            program.add(rows, columns, values, group.count)
    return program


def _of_trees(graph: TaskGraph, budget: int, spared: np.ndarray) -> _Program:
    """Variables x of each task, then y of each tree of two tasks and more that the budget suffices for, wherever it
    ends: at most the x of the task where it does, and the y of what it is grown from. So trees that have a branch in
    common share what bounds them, which is solved some times sooner than with each tree below all of its tasks."""
    ends, size = grown_trees(graph), graph.size
    replaceable = sum(1 << task for task in np.flatnonzero(~spared).tolist())
    number: dict[tuple[int, int], int] = {}
    for task, found in enumerate(ends):
        for tree, grown in found.items():
            if (tree & replaceable).bit_count() <= budget:
                number[task, tree] = size if grown.branches else task
                size += bool(grown.branches)
    worth, pairs = np.zeros(size), []
    for (task, tree), variable in number.items():
        grown = ends[task][tree]
        worth[variable] += grown.value * graph.outputs[task]
        if grown.branches:
            pairs += [(variable, limit) for limit in (task, *(number[branch] for branch in grown.branches))]
    program = _Program(graph.size, worth)
    rows, columns = np.tile(np.arange(len(pairs)), 2), np.array(pairs, int).reshape(-1, 2).T.ravel()
    program.add(rows, columns, np.repeat([1.0, -1.0], len(pairs)), len(pairs))
    return program
