"""Predicting processors against scikit-learn on the same weights, and the sink that collects what they predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from operator_streams import context_of, higgs, opened
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import LinearSVC

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.base import Context, Processor, Sink
from riprap.operators.learning import (
    estimators,
    kmeans_prediction,
    linear_prediction,
    logistic_regression,
    network_prediction,
)
from riprap.operators.learning.prediction import Predictions


@pytest.fixture(scope="module")
def items() -> np.ndarray:
    return higgs()[:3000]


def plain(model: dict[str, np.ndarray]) -> dict[str, Any]:
    """The model as a topology would give it inline."""
    return {name: array.tolist() for name, array in model.items()}


def predictions_of(processor: Processor, items: np.ndarray, label: int | None = 0) -> tuple[np.ndarray, Sink]:
    """The rows of one epoch in four blocks, and the sink."""
    _, sink = opened(processor, Predictions(), context_of(items, label, seed=3))
    for block in np.array_split(items, 4):
        sink.aggregate(processor.process_data(block))
    assert sink.commit(1) == ()
    rows = sink.outputs()
    assert rows is not None and len(rows) == len(items)
    return rows, sink


def test_logistic_regression_predicts_sklearns_probabilities(items: np.ndarray) -> None:
    fitted = LogisticRegression(max_iter=2000).fit(items[:, 1:], items[:, 0])
    model = plain(estimators.from_estimator(fitted))
    rows, sink = predictions_of(linear_prediction.LogisticRegression(model=model), items)
    np.testing.assert_allclose(rows[:, 0], fitted.predict_proba(items[:, 1:])[:, 1], rtol=0, atol=1e-12)
    assert sink.metrics() == {
        "items": 3000.0,
        "accuracy": pytest.approx(fitted.score(items[:, 1:], items[:, 0]), rel=1e-12),
        "recent_accuracy": pytest.approx(fitted.score(items[:, 1:], items[:, 0]), rel=1e-12),
    }
    classes, _ = predictions_of(linear_prediction.LogisticRegression(model=model, classes=True), items)
    np.testing.assert_array_equal(classes[:, 0], fitted.predict(items[:, 1:]))


def test_a_support_vector_machine_predicts_sklearns_margins(items: np.ndarray) -> None:
    fitted = LinearSVC().fit(items[:, 1:], items[:, 0])
    model = plain(estimators.from_estimator(fitted))
    rows, _ = predictions_of(linear_prediction.SupportVectorMachine(model=model), items)
    np.testing.assert_allclose(rows[:, 0], fitted.decision_function(items[:, 1:]), rtol=0, atol=1e-12)


def test_linear_regression_predicts_sklearns_values(items: np.ndarray) -> None:
    fitted = LinearRegression().fit(items[:, 1:], items[:, 0])
    rows, sink = predictions_of(
        linear_prediction.LinearRegression(model=plain(estimators.from_estimator(fitted))), items
    )
    np.testing.assert_allclose(rows[:, 0], fitted.predict(items[:, 1:]), rtol=0, atol=1e-12)
    assert sink.metrics()["mse"] == pytest.approx(np.square(rows[:, 0] - items[:, 0]).mean(), rel=1e-12)


def test_the_nearest_centre_is_sklearns(items: np.ndarray) -> None:
    fitted = KMeans(8, n_init=1, random_state=0).fit(items[:, 1:])
    processor = kmeans_prediction.NearestCentre(model=plain(estimators.from_estimator(fitted)))
    rows, sink = predictions_of(processor, items)
    np.testing.assert_array_equal(rows[:, 0], fitted.predict(items[:, 1:]))
    assert len(np.unique(rows)) == 8 and sink.metrics() == {"items": 3000.0}


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
def test_the_nearest_centre_is_found_far_from_0(items: np.ndarray, offset: float) -> None:
    """Times and places are so: seconds since 1970, metres of a grid."""
    features = items[:, 1:]
    centres = features[:8] + offset
    features = features + offset
    processor = kmeans_prediction.NearestCentre(model=plain({"centres": centres}))
    rows, _ = predictions_of(processor, np.column_stack([items[:, 0], features]))
    distances = np.square(features[:, np.newaxis] - centres).sum(axis=2)
    chosen = np.take_along_axis(distances, rows.astype(int), axis=1)[:, 0]
    np.testing.assert_allclose(chosen, distances.min(axis=1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_a_network_predicts_sklearns_probabilities(items: np.ndarray, activation: str) -> None:
    fitted = MLPClassifier(hidden_layer_sizes=(9,), activation=activation, max_iter=5, random_state=0)
    with pytest.warns(match="Maximum iterations"):
        fitted.fit(items[:, 1:], items[:, 0])
    rows, sink = predictions_of(network_prediction.Network(model=plain(estimators.from_estimator(fitted))), items)
    np.testing.assert_allclose(rows[:, 0], fitted.predict_proba(items[:, 1:])[:, 1], rtol=0, atol=1e-12)
    assert sink.metrics()["accuracy"] == pytest.approx(fitted.score(items[:, 1:], items[:, 0]))


def test_a_network_of_regression_predicts_sklearns_values(items: np.ndarray) -> None:
    fitted = MLPRegressor(hidden_layer_sizes=(9,), max_iter=5, random_state=0)
    with pytest.warns(match="Maximum iterations"):
        fitted.fit(items[:, 1:], items[:, 0])
    rows, sink = predictions_of(network_prediction.Network(model=plain(estimators.from_estimator(fitted))), items)
    np.testing.assert_allclose(rows[:, 0], fitted.predict(items[:, 1:]), rtol=0, atol=1e-12)
    assert sink.metrics()["mse"] == pytest.approx(np.square(rows[:, 0] - items[:, 0]).mean())


def test_many_models_are_a_column_each_in_the_order_given(items: np.ndarray, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((3, 28))
    alone = [{"coefficients": row, "intercept": np.array([index - 1.0])} for index, row in enumerate(rows)]
    estimators.save_model(tmp_path / "first.npz", alone[0])
    several = {"coefficients": rows[1:].tolist(), "intercept": [0.0, 1.0]}
    given = [str(tmp_path / "first.npz"), several]
    columns, _ = predictions_of(linear_prediction.SupportVectorMachine(model=given), items)
    for index, model in enumerate(alone):
        single, _ = predictions_of(linear_prediction.SupportVectorMachine(model=plain(model)), items)
        assert single[:, 0].tobytes() == columns[:, index].tobytes()


def test_drawn_models_are_the_seeds_and_their_accuracy_is_averaged(items: np.ndarray) -> None:
    first, sink = predictions_of(linear_prediction.LogisticRegression(models=12), items)
    again, _ = predictions_of(linear_prediction.LogisticRegression(models=12), items)
    assert first.shape == (3000, 12) and first.tobytes() == again.tobytes()
    assert len(np.unique(first[0])) == 12
    assert sink.metrics()["accuracy"] == pytest.approx(np.mean((first > 0.5) == (items[:, :1] > 0.5)))


def test_a_label_in_any_column_is_no_feature_and_may_be_missing(items: np.ndarray) -> None:
    moved = np.column_stack([items[:, 1:10], items[:, 0], items[:, 10:]])
    found = [
        predictions_of(linear_prediction.LogisticRegression(models=2), data, label)
        for data, label in ((items, 0), (moved, 9), (items[:, 1:], None))
    ]
    assert found[0][0].tobytes() == found[1][0].tobytes() == found[2][0].tobytes()
    assert found[0][1].metrics() == found[1][1].metrics()
    assert found[2][1].metrics() == {"items": 3000.0}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_label_that_is_not_finite_is_no_feature_and_such_a_feature_no_label(items: np.ndarray, value: float) -> None:
    """As kept rows have them: what is not known yet, say, is to be predicted."""
    kept = items.copy()
    kept[3::10, 0], kept[5::10, 4] = value, value
    for make in (linear_prediction.LogisticRegression, linear_prediction.LinearRegression):
        rows, _ = predictions_of(make(models=2), items)
        processor = make(models=2)
        found, _ = predictions_of(processor, kept)
        is_touched = np.arange(len(items)) % 10 == 5
        assert found[~is_touched].tobytes() == rows[~is_touched].tobytes()
        assert processor.process_linear(kept)[:, -1].tobytes() == kept[:, 0].tobytes()


def test_rows_are_handed_out_once_an_epoch(items: np.ndarray) -> None:
    processor, sink = opened(linear_prediction.LogisticRegression(models=1), Predictions(), context_of(items))
    for epoch, block in enumerate((items[:5], items[5:7]), start=1):
        sink.aggregate(processor.process_data(block))
        sink.commit(epoch)
        rows = sink.outputs()
        assert rows is not None and rows.shape == (len(block), 1)
        assert sink.outputs() is None
    sink.commit(3)
    assert sink.outputs() is None and sink.model() == {} and sink.metrics()["items"] == 7.0


LINEAR = {"coefficients": [1, 2], "intercept": [0]}
NETWORK = {**LINEAR, "hidden_weights": [[1, 2], [3, 4]], "hidden_intercept": [0, 0], "activation": [0]}


def open_with(kind: type[Processor], features: int = 2, **options: Any) -> None:
    kind(**options).open(context_of(np.zeros((1, features + 1))))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (linear_prediction.LogisticRegression, {}, "either a model to predict with, or a number"),
        (linear_prediction.LogisticRegression, {"model": "m.npz", "models": 2}, "either a model to predict with"),
        (linear_prediction.LogisticRegression, {"models": 0}, "models is 0"),
        (linear_prediction.LinearRegression, {"model": 7}, "the option model is 7"),
        (linear_prediction.LinearRegression, {"model": NETWORK}, "the model is a network, and no linear one"),
        (linear_prediction.LinearRegression, {"model": LINEAR | {"coefficients": [[[1, 2]]]}}, r"shape \(1, 1, 2\)"),
        (linear_prediction.LogisticRegression, {"model": LINEAR | {"classes": [1, 2, 3]}}, "3 classes"),
        (linear_prediction.LinearRegression, {"model": {"centres": [[1, 2]]}}, "no coefficients and no intercept"),
        (linear_prediction.LinearRegression, {"model": {"coefficients": ["a"], "intercept": [0]}}, "not an array of"),
        (linear_prediction.LinearRegression, {"model": {"coefficients": [1], "intercept": [0]}}, "has 1 features"),
        (
            linear_prediction.LinearRegression,
            {"model": [{"coefficients": row, "intercept": [0]} for row in ([1], [1, 2])]},
            "the models have",
        ),
        (linear_prediction.LinearRegression, {"model": {"coefficients": [1, 2], "intercept": [0, 0]}}, "intercepts"),
        (kmeans_prediction.NearestCentre, {"model": {"centres": [1, 2]}}, r"centres of shape \(2,\)"),
        (network_prediction.Network, {"model": {"coefficients": [1, 2], "intercept": [0]}}, "no hidden_weights"),
    ],
)
def test_models_that_do_not_fit_are_refused(kind: type[Processor], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_with(kind, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_intercept": [0.0]}, "no layer"),
        ({"activation": [3]}, "activation .* is unknown"),
        ({"activation": [0.5]}, "activation .* is unknown"),
        ({"coefficients": [1.0, 2.0]}, "do not fit 3 hidden units"),
    ],
)
def test_networks_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    network = {
        "hidden_weights": np.ones((2, 3)).tolist(),
        "hidden_intercept": [0.0, 0.0, 0.0],
        "activation": [0],
        "coefficients": [1.0, 2.0, 3.0],
        "intercept": [0.0],
    }
    open_with(network_prediction.Network, model=network)
    with pytest.raises(ConfigError, match=message):
        open_with(network_prediction.Network, model=network | change)


def test_a_file_that_is_no_model_and_a_sink_after_a_training_processor_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a model"):
        open_with(linear_prediction.LogisticRegression, model=str(tmp_path / "none.npz"))
    sink, processor = Predictions(), logistic_regression.Gradient()
    sink.processor = processor
    with pytest.raises(ConfigError, match="needs a Prediction upstream, not Gradient"):
        sink.open(Context(("a", "b"), "a"))
