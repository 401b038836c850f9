"""Online logistic regression against a loop of plain Python, bit by bit, and with failures (AF Experiment 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context
from riprap.operators.dataflow import Items
from riprap.operators.learning.online_logistic import GlobalModel, LocalModel
from riprap.operators.learning.sgd import SparseModel
from riprap.operators.states.base import Backup
from tests.unit.operators.dataflow_harness import Outbox, Pipeline, input_items

PARAMETERS, FEATURES = 400, 5


def record_type(features: int = FEATURES) -> np.dtype:
    shape = (features,)
    return np.dtype([("label", "<f4"), ("gap", "<u4"), ("indexes", "<u4", shape), ("values", "<f4", shape)])


def sparse(seed: int, count: int, features: int = FEATURES) -> np.ndarray:
    """Items whose labels follow from a hidden model, mostly."""
    rng = np.random.default_rng(seed)
    hidden = np.random.default_rng(99).normal(0, 2, PARAMETERS)
    records = np.zeros(count, record_type(features))
    records["indexes"] = rng.integers(0, PARAMETERS, (count, features))
    records["values"] = rng.choice([1, 1, 0.5], (count, features))
    scores = (hidden[records["indexes"]] * records["values"]).sum(axis=1)
    records["label"] = scores + rng.logistic(0, 0.3, count) > 0
    return records


@dataclass
class DumbModel:
    """The same training, one number at a time."""

    eta: float = 0.5
    weights: list[float] = field(default_factory=lambda: [0.0] * PARAMETERS)
    saved: list[float] = field(default_factory=lambda: [0.0] * PARAMETERS)
    trained: int = 0
    correct: int = 0

    def train(self, record: np.void, holdout: int = 0) -> float:
        pairs = list(zip(record["indexes"].tolist(), record["values"].tolist(), strict=True))
        score = 0.0
        for index, value in pairs:
            score += self.weights[index] * value
        self.trained += 1
        if holdout and self.trained % holdout == 0:
            self.correct += (score > 0) == (record["label"] > 0)
        step = self.eta / math.sqrt(self.trained) * (float(record["label"]) - 1 / (1 + math.exp(-score)))
        for index, value in pairs:
            self.weights[index] += step * value
        return math.dist(self.weights, self.saved)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 120), st.floats(0, 2), st.integers(0, 4))
def test_it_trains_and_stops_as_the_loop(seed: int, count: int, theta: float, holdout: int) -> None:
    records, model, dumb = sparse(seed, count), SparseModel(PARAMETERS, 0.5, holdout), DumbModel()
    restored, first = SparseModel(PARAMETERS), 0
    model.theta = theta
    while first < count:
        left = model.train(records, first, count)
        for position in range(first, left):
            distance = dumb.train(records[position], holdout)
            assert math.isclose(distance, theta, rel_tol=1e-6) or (distance > theta) == (
                position == left - 1 and model.exceeded
            )
        assert model.values.tolist() == dumb.weights, "the same bits"
        assert math.isclose(model.state_divergence(), distance, rel_tol=1e-6, abs_tol=1e-9)
        first = left
        if model.exceeded:
            restored.recover_state(model.backup_state())
            dumb.saved = list(dumb.weights)
            assert restored.values.tolist() == dumb.weights and model.state_divergence() == 0
    assert (model.trained, model.tested) == (count, (count // holdout if holdout else 0, dumb.correct))
    restored.recover_state(model.backup_all())
    assert restored.values.tolist() == dumb.weights and restored.trained == count and restored.tested == model.tested


def test_partial_backups_and_reports_hold_what_changed() -> None:
    records, model = sparse(1, 50), SparseModel(PARAMETERS)
    model.train(records, 0, 20)
    assert model.backup_state().full
    indexes, values = model.report()
    assert set(indexes.tolist()) == set(records["indexes"][:20].ravel().tolist())
    assert (model.values[indexes] == values).all()
    model.train(records, 20, 21)
    changed = set(records["indexes"][20].tolist())
    partial = model.backup_state()
    assert not partial.full and set(partial.arrays[1].tolist()) == changed
    assert set(model.report()[0].tolist()) == changed and len(model.report()[0]) == 0


def test_feedback_keeps_what_was_learned_since_the_report() -> None:
    records, model = sparse(2, 50), SparseModel(PARAMETERS)
    model.train(records, 0, 30)
    indexes, values = model.report()
    model.train(records, 30, 50)
    before = model.values
    model.merge(indexes, values + 0.25)
    expected = before.copy()
    expected[indexes] = (values + 0.25) + (before[indexes] - values)
    assert (model.values == expected).all()
    assert math.isclose(model.state_divergence(), math.dist(expected, np.zeros(PARAMETERS)), rel_tol=1e-9)
    assert set(model.report()[0].tolist()) == set(records["indexes"][30:].ravel().tolist())


def pipeline(tasks: int, theta: float = np.inf, every: int = 100) -> Pipeline:
    stages = [
        ("local", lambda: LocalModel(PARAMETERS, report_every=every, holdout=2), tasks),
        ("global", lambda: GlobalModel(PARAMETERS), 1),
    ]
    return Pipeline(stages, theta)


def test_one_local_model_is_the_global_one() -> None:
    records, line, dumb = sparse(3, 1234), pipeline(1), DumbModel()
    for begin in range(0, 1234, 321):
        line.feed(0, records[begin : begin + 321])
    line.close()
    for record in records:
        dumb.train(record)
    model = line.task(1).operator.results()["model"]
    assert np.allclose(model, dumb.weights, rtol=0, atol=1e-12)
    assert (line.task(0).operator.state.values == model).all()


def test_the_global_model_is_the_average_of_those_reported() -> None:
    line = pipeline(2, every=10_000)
    parts, dumb = [sparse(4, 300), sparse(5, 300)], [DumbModel(), DumbModel()]
    for index in range(2):
        line.feed(index, parts[index])
        for record in parts[index]:
            dumb[index].train(record)
    line.close()
    expected = np.mean([model.weights for model in dumb], axis=0)
    assert np.allclose(line.task(1).operator.results()["model"], expected, rtol=0, atol=1e-12)
    for task in line.stages[0]:
        assert (task.operator.state.values == line.task(1).operator.results()["model"]).all(), "fed back"


def accuracy(model: np.ndarray) -> float:
    test = sparse(1000, 2000)
    scores = (model[test["indexes"]] * test["values"]).sum(axis=1)
    return float(((scores > 0) == (test["label"] > 0)).mean())


def test_it_learns_and_ten_failures_cost_little() -> None:
    rates = []
    for failures in (0, 10):
        line = pipeline(3, theta=1.0)
        for step in range(40):
            for index in range(3):
                line.feed(index, sparse(step * 3 + index, 250))
            if step % 4 == 3 and failures:
                for task in (*line.stages[0], *line.stages[1]):
                    task.fail()
            if step % 5 == 4:
                line.close()
        rates.append(accuracy(line.task(1).operator.results()["model"]))
        metrics = [task.operator.metrics() for task in line.stages[0]]
        assert all(m["tested"] <= 5000 and m["prediction_rate"] > 0.75 for m in metrics)
        assert failures or all(m["tested"] == 5000 for m in metrics)
    assert rates[0] > 0.85 and rates[1] > rates[0] - 0.03, rates


@pytest.mark.parametrize(
    "options", [{"parameters": 0}, {"parameters": 2**40}, {"eta": 0}, {"report_every": 0}, {"holdout": -1}]
)
def test_wrong_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        LocalModel(**options)


def test_wrong_input_is_named() -> None:
    beyond = sparse(1, 3)
    beyond["indexes"][1, 2] = PARAMETERS
    for records in (beyond, np.zeros(3), np.zeros(3, [("label", "<f4")])):
        with pytest.raises(DataError, match=r"item 1 has a feature|no sparse items"):
            LocalModel(PARAMETERS).process_data(input_items(1, records), 0, Outbox())
    merge = GlobalModel(PARAMETERS)
    merge.open(Context(upstream={"local": 2}))
    with pytest.raises(ConfigError, match="parameters"):
        merge.process_data(input_items(1, np.array([PARAMETERS], np.uint32), np.zeros(1)), 0, Outbox())


GOOD = (np.array([PARAMETERS, 1, 0, 0]), np.array([3], np.uint32), np.array([1.0]))
WRONG = [
    GOOD[:2],
    (GOOD[0] + 1, *GOOD[1:]),
    (-GOOD[0], *GOOD[1:]),
    (GOOD[0], np.array([PARAMETERS], np.uint32), GOOD[2]),
    (GOOD[0], np.array([3]), GOOD[2]),
    (*GOOD[:2], np.array([1.0, 2.0])),
]


@pytest.mark.parametrize("arrays", WRONG)
def test_malformed_backups_are_refused(arrays: tuple[np.ndarray, ...]) -> None:
    SparseModel(PARAMETERS).recover_state(Backup(True, GOOD))
    with pytest.raises(ValueError):
        SparseModel(PARAMETERS).recover_state(Backup(True, arrays))


def report(*pairs: tuple[int, float]) -> Items:
    indexes, values = zip(*pairs, strict=True)
    return input_items(1, np.array(indexes, np.uint32), np.array(values))._replace(count=1)


def test_an_average_goes_on_within_a_window() -> None:
    """Half of the models have reported when it dies: the other half counts for the same as without."""
    averages = [GlobalModel(PARAMETERS), GlobalModel(PARAMETERS)]
    outs = [Outbox(), Outbox()]
    for average, out in zip(averages, outs, strict=True):
        average.open(Context(upstream={"local": 2}))
        average.process_data(report((7, 1.0), (3, 4.0)), 0, out)
    restored = GlobalModel(PARAMETERS)
    restored.open(Context(upstream={"local": 2}))
    restored.state.recover_state(averages[1].state.backup_all())
    restored.recovered(0.0, 0)
    averages[1] = restored
    for average, out in zip(averages, outs, strict=True):
        average.process_data(report((7, 1.0)), 0, out)
    for average, out in zip(averages, outs, strict=True):
        assert average.results()["model"][[7, 3]].tolist() == [1.0, 2.0]
        ((fed_back, *_),) = out.fed_back
        assert [array.tolist() for array in fed_back] == [[7, 3], [1.0, 2.0]]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(["train", "report", "merge", "save", "die"]), max_size=25))
def test_a_model_goes_on_between_two_reports(seed: int, steps: list[str]) -> None:
    records, rng, first = sparse(seed, 25 * 4), np.random.default_rng(seed), 0
    model, other = SparseModel(PARAMETERS), SparseModel(PARAMETERS)
    saved = [other.backup_all()]
    for step in steps:
        if step == "train":
            model.train(records, first, first + 4), other.train(records, first, first + 4)
            first += 4
        elif step == "report":
            for one, same in zip(model.report(), other.report(), strict=True):
                assert one.tolist() == same.tolist()
        elif step == "merge":
            agreed = rng.choice(PARAMETERS, 30, replace=False).astype(np.uint32), rng.normal(size=30)
            model.merge(*agreed), other.merge(*agreed)
        elif step == "save":
            saved.append(other.backup_state())
        else:
            saved.append(other.backup_state())
            other = SparseModel(PARAMETERS)
            for backup in saved:
                other.recover_state(backup)
        assert (model.values == other.values).all()


HALF_AGREED = (np.array([1]), np.array([3], np.uint32), np.array([0.5]), np.zeros(PARAMETERS))
HALF_WRONG = [
    HALF_AGREED[:3],
    (-HALF_AGREED[0], *HALF_AGREED[1:]),
    (HALF_AGREED[0], np.array([PARAMETERS], np.uint32), *HALF_AGREED[2:]),
    (*HALF_AGREED[:2], np.array([0.5, 1.0]), HALF_AGREED[3]),
    (*HALF_AGREED[:3], np.zeros(3)),
]


@pytest.mark.parametrize("arrays", HALF_WRONG)
def test_malformed_backups_of_an_average_are_refused(arrays: tuple[np.ndarray, ...]) -> None:
    GlobalModel(PARAMETERS).state.recover_state(Backup(True, HALF_AGREED))
    with pytest.raises(ValueError):
        GlobalModel(PARAMETERS).state.recover_state(Backup(True, arrays))
