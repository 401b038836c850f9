"""Loops that learn beside scikit-learn and NumPy, with one task and three, that die or not."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from riprap.codec.errors import DataError
from riprap.operators.dataflow import Items
from riprap.operators.iteration.full_gradient import FullGradient
from riprap.operators.iteration.lloyd import Lloyd
from riprap.operators.iteration.supersteps import NO_MESSAGES, Iteration
from tests.unit.operators.loop_harness import FAULTS, Ring

TASKS_AND_FAULTS = pytest.mark.parametrize(("tasks", "fault"), list(product((1, 3), FAULTS)))


def learn(ring: Ring, rows: np.ndarray) -> list[dict[str, np.ndarray]]:
    """What each task has after one window."""
    for number, task in enumerate(ring.tasks):
        part = rows[number :: len(ring.tasks)]
        task.process(Items(1, "read", 0, len(part), (part,)))
    ring.loop(1)
    return [task.operator.results() for task in ring.tasks]


def labelled(logistic: bool) -> np.ndarray:
    rng = np.random.default_rng(4)
    features = rng.standard_normal((300, 3))
    score = features @ [1.0, -2.0, 0.5] + 0.3 + rng.standard_normal(300)
    return np.column_stack([features, score > 0 if logistic else score])


@TASKS_AND_FAULTS
def test_linear_regression_is_least_squares(tasks: int, fault: str) -> None:
    rows = labelled(False)
    found = learn(Ring(lambda: FullGradient(3, tolerance=1e-12), tasks, 1, fault), rows)
    truth = np.linalg.lstsq(np.column_stack([rows[:, :-1], np.ones(300)]), rows[:, -1], rcond=None)[0]
    for one in found:
        np.testing.assert_allclose(one["parameters"], truth, rtol=1e-9)
        assert one["parameters"].tobytes() == found[0]["parameters"].tobytes()


@TASKS_AND_FAULTS
def test_logistic_regression_is_that_of_scikit_learn(tasks: int, fault: str) -> None:
    rows = labelled(True)
    loop = Ring(
        lambda: FullGradient(3, loss="logistic", eta=1.0, l2=1 / 300, tolerance=1e-10, supersteps=5000),
        tasks,
        1,
        fault,
    )
    found = learn(loop, rows)[0]["parameters"]
    truth = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(rows[:, :-1], rows[:, -1])
    np.testing.assert_allclose(found, [*truth.coef_[0], truth.intercept_[0]], rtol=1e-6)


@TASKS_AND_FAULTS
def test_centres_are_those_of_scikit_learn(tasks: int, fault: str) -> None:
    rng = np.random.default_rng(2)
    rows = np.concatenate([rng.normal(centre, 0.8, (60, 2)) for centre in ([0, 0], [4, 0], [0, 4])])
    loop = Ring(lambda: Lloyd(2, 3), tasks, 1, fault)
    found = learn(loop, rows)
    own = rows[::tasks]
    own = own[np.lexsort(own.T[::-1])]
    first = own[np.linspace(0, len(own) - 1, 3).astype(int)]
    truth = KMeans(3, init=first, n_init=1, tol=0, algorithm="lloyd").fit(rows).cluster_centers_
    for one in found:
        np.testing.assert_allclose(one["centres"], truth, rtol=1e-9)


@pytest.mark.parametrize("make", [lambda: Lloyd(2, 3), lambda: FullGradient(1), lambda: FullGradient(1, "logistic")])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_refused(make: Callable[[], Iteration], odd: float) -> None:
    rows = np.array([[0.0, 1.0], [odd, 0.0], [2.0, 1.0]])
    with pytest.raises(DataError, match="1 of 6 numbers of the rows are NaN or infinite"):
        learn(Ring(make, 1, 1, ""), rows)


def test_labels_that_the_loss_does_not_know_are_refused() -> None:
    rows = np.array([[0.0, 1.0], [1.0, -1.0]])
    learn(Ring(lambda: FullGradient(1), 1, 1, ""), rows)
    with pytest.raises(DataError, match=r"the value -1 .* not 0 or 1"):
        learn(Ring(lambda: FullGradient(1, "logistic"), 1, 1, ""), rows)


@pytest.mark.parametrize("fault", FAULTS)
def test_centres_begin_from_the_first_rows_wherever_they_are(fault: str) -> None:
    """Task 0 has none of them, and window 1 none at all: the centres began at 0, and all but one stayed there."""
    rows = np.concatenate([np.random.default_rng(2).normal(centre, 0.1, (20, 1)) for centre in (5, 9)])
    loop = Ring(lambda: Lloyd(1, 2), 3, 1, fault)
    loop.loop(1)
    assert all(task.operator.results()["centres"].shape == (0, 1) for task in loop.tasks)
    for window, (task, part) in enumerate(((1, rows), (2, rows[:20])), 2):
        loop.tasks[task].process(Items(window, "read", 0, len(part), (part,)))
        loop.loop(window)
        for one in loop.tasks:
            centres = one.operator.results()["centres"]
            np.testing.assert_allclose(centres.ravel(), [rows[:20].mean(), rows[20:].mean()], rtol=1e-9)


def test_centres_need_memory_for_few_copies_of_the_rows() -> None:
    """It was that of a copy for each centre."""
    operator = Lloyd(8, 40)
    rows = operator.state.rows = np.random.default_rng(0).standard_normal((5000, 8))
    operator.state.superstep, operator.state.arrays["centres"] = 1, rows[:40]
    tracemalloc.start()
    found = operator.superstep(1, NO_MESSAGES, np.column_stack([rows[:40], np.ones(40)]).ravel()).totals
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * rows.nbytes
    nearest = ((rows[:, None, :] - rows[:40]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(found.reshape(40, 9)[:, -1], np.bincount(nearest, minlength=40))
