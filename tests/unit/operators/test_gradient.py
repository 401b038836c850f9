"""Gradient descent by windows against the textbook, its threshold, and its convergence under failures (AFX 6.2)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.learning.gradient import ITERATION, Descent, GlobalGradient, LocalGradient, WindowGradient
from riprap.operators.states.base import Backup
from tests.unit.operators.dataflow_harness import Outbox, Pipeline, input_items

COLUMNS, LABEL = 6, 2


def items(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(0, 1, (count, COLUMNS))
    hidden = np.array([1.0, -2.0, 0.0, 0.5, 3.0, -1.0])
    matrix[:, LABEL] = matrix @ hidden + rng.logistic(0, 0.5, count) > 0.3
    return matrix


def textbook(matrix: np.ndarray, model: np.ndarray) -> tuple[np.ndarray, float, int]:
    """Summed gradient, summed loss, items on the right side."""
    features, label = matrix.copy(), matrix[:, LABEL]
    features[:, LABEL] = 0.0
    margin = features @ model[:-1] + model[-1]
    wrong = 1 / (1 + np.exp(-margin)) - label
    gradient = np.append(wrong @ features, wrong.sum())
    return gradient, float((np.log1p(np.exp(margin)) - label * margin).sum()), int(((margin > 0) == (label > 0)).sum())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0, 2), st.integers(0, 90))
def test_the_gradient_stops_where_its_mean_has_moved_by_theta(
    seed: int, count: int, theta: float, expected: int
) -> None:
    matrix, state = items(seed, count), WindowGradient()
    model = np.random.default_rng(seed).normal(0, 1, COLUMNS + 1)
    model[LABEL] = 0.0
    state.take_model(model)
    state.tallies[0] = expected
    state.clear()  # a window of so many items is over
    state.backup_state()
    state.theta = theta
    saved, first = np.zeros(COLUMNS + 1), 0
    while first < count:
        left = state.add(matrix, first, LABEL)
        for position in range(first + 1, left + 1):
            total = textbook(matrix[:position], model)[0]
            distance = math.dist(total, saved) / max(position, expected)
            near = math.isclose(distance, theta, rel_tol=1e-9, abs_tol=1e-12)
            assert near or (distance > theta) == (position == left and state.exceeded)
        assert math.isclose(state.state_divergence(), distance, rel_tol=1e-9, abs_tol=1e-12)
        first = left
        if state.exceeded:
            restored = WindowGradient()
            restored.recover_state(state.backup_state())
            assert (restored.total == state.total).all() and state.state_divergence() == 0
            saved = total
    gradient, loss, correct = textbook(matrix, model)
    assert np.allclose(state.total, gradient) and np.allclose(state.tallies, [count, loss, correct])


def pipeline(tasks: int, theta: float = np.inf) -> Pipeline:
    return Pipeline([("local", lambda: LocalGradient(LABEL), tasks), ("global", lambda: GlobalGradient(2.0), 1)], theta)


@pytest.mark.parametrize("tasks", [1, 3])
def test_iterations_are_those_of_the_textbook(tasks: int) -> None:
    line, model, expected = pipeline(tasks), np.zeros(COLUMNS + 1), []
    for epoch in range(1, 8):
        parts = [items(epoch * 10 + index, 200) for index in range(tasks)]
        for index, part in enumerate(parts):
            line.feed(index, part[:70])
            line.feed(index, part[70:])
        line.close()
        matrix = np.concatenate(parts)
        gradient, loss, correct = textbook(matrix, model)
        change = 2.0 / math.sqrt(epoch) * gradient / len(matrix)
        expected.append((epoch, len(matrix), loss / len(matrix), correct / len(matrix), np.abs(change).sum()))
        model = model - change
        assert all(np.allclose(task.operator.state.model, model) for task in line.stages[0]), "fed back"
    results = line.task(1).operator.results()
    assert np.allclose(results["model"], model) and results["model"][LABEL] == 0
    assert np.allclose(np.array([results[name] for name in ITERATION.names or ()]).T, expected)
    assert results["loss"][-1] < results["loss"][0] / 1.5
    assert line.task(1).operator.metrics()["l1_norm"] == results["l1_norm"][-1]


def final_loss(failures: int) -> tuple[float, float, int]:
    """(loss, l1 norm) of the last of 30 iterations, and how many items were counted."""
    line = pipeline(4, theta=0.05)
    for epoch in range(1, 31):
        parts = [items(epoch * 10 + index, 150) for index in range(4)]
        for index, part in enumerate(parts):
            line.feed(index, part[:100])
        if failures and epoch % 3 == 0:
            for task in (*line.stages[0][:failures], *line.stages[1]):
                task.fail()
        for index, part in enumerate(parts):
            line.feed(index, part[100:])
        line.close()
    results = line.task(1).operator.results()
    return float(results["loss"][-1]), float(results["l1_norm"][-1]), int(results["items"].sum())


def test_it_converges_under_failures() -> None:
    loss, norm, counted = final_loss(0)
    assert counted == 30 * 600
    for failures in (2, 4):
        failed_loss, failed_norm, failed_counted = final_loss(failures)
        assert abs(failed_loss - loss) < 0.02 and failed_norm < 2 * norm + 0.05, (loss, failed_loss, norm, failed_norm)
        assert 0.9 * counted < failed_counted < counted


def test_a_descent_diverges_by_its_open_windows_and_its_steps() -> None:
    state = Descent()
    state.add(3, np.array([6.0, 8.0]), np.array([2.0, 1.0, 1.0]))
    assert state.state_divergence() == 5.0, "the mean of the open window"
    restored = Descent()
    restored.recover_state(state.backup_state())
    assert state.state_divergence() == 0.0
    for descent in (state, restored):
        descent.step(3, 2.0)
        assert descent.state_divergence() == 10.0 and descent.cleared and descent.model.tolist() == [-6.0, -8.0]


def test_an_empty_window_changes_nothing() -> None:
    line = pipeline(1)
    line.close()
    assert len(line.task(1).operator.results()["model"]) == 0 and line.task(1).operator.metrics() == {}
    line.feed(0, items(1, 10))
    line.close()
    before = line.task(1).operator.results()
    line.close()
    after = line.task(1).operator.results()
    assert all((before[name] == after[name]).all() for name in before) and before["epoch"].tolist() == [2]


def test_wrong_options_input_and_messages_are_named() -> None:
    for wrong in (-1, 1.5):
        with pytest.raises(ConfigError):
            LocalGradient(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        GlobalGradient(0.0)
    local = LocalGradient(1)
    local.process_data(input_items(1, np.zeros((2, 3))), 0, Outbox())
    for operator, array in ((local, np.zeros((2, 4))), (LocalGradient(3), np.zeros((2, 3))), (local, np.zeros(3))):
        with pytest.raises(DataError, match="cannot be trained on"):
            operator.process_data(input_items(1, array), 0, Outbox())
    with pytest.raises(ValueError, match="a model of"):
        local.state.take_model(np.zeros(9))
    merge = GlobalGradient()
    merge.process_data(input_items(1, np.zeros(4), np.ones(3), count=1), 0, Outbox())
    with pytest.raises(ConfigError, match="same columns"):
        merge.process_data(input_items(1, np.zeros(5), np.ones(3), count=1), 0, Outbox())


def test_malformed_backups_are_refused() -> None:
    zeros = np.zeros
    none = np.empty(0, ITERATION)
    for arrays in (
        (zeros(3), zeros(4), zeros(3)),
        (zeros(3), zeros(3), zeros(2)),
        (zeros(3, np.int64), zeros(3), zeros(3)),
    ):
        with pytest.raises(ValueError):
            WindowGradient().recover_state(Backup(True, arrays))
    Descent().recover_state(Backup(True, (zeros(3), np.ones(1, np.int64), np.ones((1, 6)), none)))
    for arrays in (
        (zeros(3), np.ones(1, np.int64), np.ones((1, 5)), none),
        (zeros(3), np.ones(2, np.int64), np.ones((1, 6)), none),
        (zeros(3), np.ones(1), np.ones((1, 6)), none),
    ):
        with pytest.raises(ValueError):
            Descent().recover_state(Backup(True, arrays))  # type: ignore[arg-type]
