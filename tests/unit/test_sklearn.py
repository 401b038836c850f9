"""The estimators keep scikit-learn's contract and River's, and train in this process what a job would train."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import river.compose
import river.preprocessing
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from riprap import RiprapSGDClassifier, RiprapSGDRegressor, from_estimator, predict

WEIGHTS = np.array([1.0, -2.0, 0.5, 0.0])
RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((600, 4))
Y = X @ WEIGHTS > 0.1


@parametrize_with_checks([RiprapSGDClassifier(), RiprapSGDClassifier(loss="hinge"), RiprapSGDRegressor()])
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_classifier_learns_any_two_labels() -> None:
    labels = np.where(Y, "signal", "background")
    model = RiprapSGDClassifier().fit(X, labels)
    assert model.classes_.tolist() == ["background", "signal"] and model.score(X, labels) > 0.95
    probabilities = model.predict_proba(X)
    assert np.array_equal(probabilities[:, 1] > 0.5, model.predict(X) == "signal")
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert not hasattr(RiprapSGDClassifier(loss="hinge"), "predict_proba")


def test_a_regressor_finds_the_weights() -> None:
    model = RiprapSGDRegressor(max_iter=300).fit(X, X @ WEIGHTS + 2.0)
    assert np.allclose(model.coef_, WEIGHTS, atol=0.02) and model.intercept_ == pytest.approx(2.0, abs=0.02)


def test_more_classes_are_one_against_the_rest() -> None:
    labels = (X[:, 0] > 0).astype(int) + (X[:, 0] > 1)
    with pytest.raises(ValueError, match="Only binary classification"):
        RiprapSGDClassifier().fit(X, labels)
    assert OneVsRestClassifier(RiprapSGDClassifier()).fit(X, labels).score(X, labels) > 0.7


def test_passes_one_by_one_are_fit() -> None:
    """A pass is a whole number of micro-batches here, so that they are cut alike."""
    wanted = RiprapSGDClassifier(max_iter=3, micro_batch=100).fit(X, Y)
    model = RiprapSGDClassifier(micro_batch=100)
    for _ in range(3):
        model.partial_fit(X, Y, classes=[False, True])
    assert np.array_equal(model.coef_, wanted.coef_) and np.array_equal(model.intercept_, wanted.intercept_)
    assert pickle.loads(pickle.dumps(model)).partial_fit(X, Y).n_iter_ == 4


def test_a_fitted_estimator_is_a_model() -> None:
    labels = np.where(Y, 7.0, -1.0)
    model = make_pipeline(StandardScaler(), RiprapSGDClassifier()).fit(X, labels)
    scaled = model[0].transform(X)
    assert np.array_equal(predict(from_estimator(model[1]), scaled), model.predict(X))


def test_what_diverges_says_so() -> None:
    with pytest.raises(ValueError, match="not finite: scale the features"), np.errstate(all="ignore"):
        RiprapSGDRegressor(eta0=100.0).fit(1000 * X, X @ WEIGHTS)


@pytest.mark.parametrize("options", [{"loss": "cosine"}, {"loss": "squared_error"}])
def test_an_unknown_loss_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected one of log_loss, hinge"):
        RiprapSGDClassifier(**options).fit(X, Y)


@pytest.mark.parametrize("estimator", [RiprapSGDClassifier, RiprapSGDRegressor])
@pytest.mark.parametrize("name", ["micro_batch", "max_iter"])
@pytest.mark.parametrize("value", [0, -5, 3.5, "many", True])
def test_what_counts_is_a_whole_number_from_1(estimator: Any, name: str, value: Any) -> None:
    """A negative one would train on nothing, and give a model of zeros."""
    with pytest.raises(ValueError, match=rf"{name} is {value!r}, expected a whole number from 1"):
        estimator(**{name: value}).fit(X, Y)
    assert estimator(**{name: np.int64(3)}).fit(X, Y).coef_.any()


def items() -> list[dict[str, float]]:
    return [dict(zip("abcd", row)) for row in X.tolist()]


def test_river_learns_item_by_item() -> None:
    model = river.preprocessing.StandardScaler() | RiprapSGDClassifier()
    assert model.predict_one(items()[0]) is None
    right = 0
    for number, (item, label) in enumerate(zip(items(), Y.tolist())):
        right += number >= 300 and model.predict_one(item) is label
        model.learn_one(item, label)
    assert right > 270
    shuffled = {name: items()[0][name] for name in "dbca"}
    assert model.predict_one(shuffled) == model.predict_one(items()[0])


def test_river_learns_mini_batches() -> None:
    frame, labels = pd.DataFrame(X, columns=list("abcd")), pd.Series(Y)
    model = river.compose.Pipeline(river.preprocessing.StandardScaler(), RiprapSGDClassifier(micro_batch=50))
    for start in range(0, 600, 50):
        model.learn_many(frame[start : start + 50], labels[start : start + 50])
    found = model.predict_many(frame[300:])
    assert isinstance(found, pd.Series) and found.index[0] == 300
    assert (found == labels[300:]).mean() > 0.9


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_an_item_that_is_not_finite_leaves_the_model_as_it_is(odd: float) -> None:
    model, fresh = RiprapSGDRegressor(), RiprapSGDRegressor()
    with pytest.raises(ValueError, match="b is"):
        fresh.learn_one({"a": 1.0, "b": odd}, 1.0)
    for item, value in zip(items(), (X @ WEIGHTS).tolist()):
        model.learn_one(item, value)
    before = model.predict_one(items()[0])
    with pytest.raises(ValueError, match=f"b is {odd}, expected a finite number"):
        model.learn_one(items()[0] | {"b": odd}, 1.0)
    with pytest.raises(ValueError, match=f"b is {odd}, expected a finite number"):
        model.predict_one(items()[0] | {"b": odd})
    with pytest.raises(ValueError, match=f"the value is {odd}, expected a finite number"):
        model.learn_one(items()[0], odd)
    assert model.predict_one(items()[0]) == before
    fresh.learn_one({"c": 1.0}, 1.0)
    assert fresh.feature_names_in_.tolist() == ["c"]


def test_items_follow_rows_without_names() -> None:
    """Such rows name no features: the first item does, in its order."""
    model = RiprapSGDRegressor(max_iter=300).fit(X, X @ WEIGHTS)
    assert model.predict_one(items()[0]) == model.predict(X[:1])[0]
    with pytest.raises(ValueError, match="the item has 2 features, the model 4"):
        model.predict_one({"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="the item has 2 features, the model 4"):
        model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    assert model.predict(X[:1])[0] == pytest.approx(X[0] @ WEIGHTS, abs=0.02)
    model.learn_one(items()[0], X[0] @ WEIGHTS)
    assert model.feature_names_in_.tolist() == list("abcd") and model.n_features_in_ == 4


def test_river_learns_values() -> None:
    model = RiprapSGDRegressor()
    for item, value in zip(items(), (X @ WEIGHTS).tolist()):
        model.learn_one(item, value)
    assert model.predict_one(items()[0]) == pytest.approx(X[0] @ WEIGHTS, abs=0.3)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([True, True], [False, True]), ([1, 1], [0, 1]), (["b", "a"], ["a", "b"]), ([-1.0, 1.0], [-1.0, 1.0])],
)
def test_river_says_no_classes(labels: list[Any], classes: list[Any]) -> None:
    model = RiprapSGDClassifier()
    model.learn_many(pd.DataFrame(X[:2]), pd.Series(labels))
    assert model.classes_.tolist() == classes
    with pytest.raises(ValueError, match="labels other than the classes"):
        model.learn_many(pd.DataFrame(X[:1]), pd.Series(["c"]))
