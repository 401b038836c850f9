"""Models on disk, judged, and exchanged with scikit-learn."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_streams import context_of, higgs, micro_batches, opened, train

from riprap.codec.errors import ConfigError, DataError
from riprap.operators.learning import estimators, kmeans, linear_regression, logistic_regression, random_features, svm

PAIRS = {
    "logistic": (logistic_regression.Gradient, logistic_regression.Model),
    "svm": (svm.Gradient, svm.Model),
    "linear": (linear_regression.Gradient, linear_regression.Model),
    "kmeans": (kmeans.Assignment, kmeans.Model),
    "network": (random_features.Gradient, random_features.Model),
}


@pytest.fixture(scope="module")
def items() -> np.ndarray:
    return higgs()[:4000]


@pytest.fixture(scope="module", params=PAIRS)
def model(request: pytest.FixtureRequest, items: np.ndarray) -> dict[str, np.ndarray]:
    processor, sink = PAIRS[request.param]
    return train(*opened(processor(), sink(), context_of(items)), micro_batches(items, 200)).model()


def test_round_trip_through_a_file(model: dict[str, np.ndarray], tmp_path: Path) -> None:
    estimators.save_model(tmp_path / "model.npz", model)
    loaded = estimators.load_model(tmp_path / "model.npz")
    assert list(loaded) == list(model)
    for name in model:
        np.testing.assert_array_equal(loaded[name], model[name])


def test_sklearn_predicts_the_same(model: dict[str, np.ndarray], items: np.ndarray) -> None:
    ours = estimators.predict(model, items[:, 1:])
    linear_classifier = "classes" in model and "hidden_weights" not in model
    names = ("LogisticRegression", "LinearSVC", "SGDClassifier") if linear_classifier else ("",)
    for name in names:
        theirs = estimators.to_estimator(model, name).predict(items[:, 1:])
        np.testing.assert_allclose(theirs, ours, rtol=1e-10)
    assert len(np.unique(ours)) > 1


def test_evaluation_is_sklearns(model: dict[str, np.ndarray], items: np.ndarray) -> None:
    columns = [f"c{i}" for i in range(29)]
    ours = estimators.evaluate(model, items, columns, "c0")
    assert ours.pop("items") == 4000
    estimator = estimators.to_estimator(model)
    if "centres" in model:
        assert ours == {"inertia": pytest.approx(-estimator.score(items[:, 1:]) / 4000)}
    else:
        assert list(ours.values()) == [pytest.approx(estimator.score(items[:, 1:], items[:, 0]))]


def test_round_trip_through_an_estimator(model: dict[str, np.ndarray]) -> None:
    back = estimators.from_estimator(estimators.to_estimator(model))
    assert list(back) == list(model)
    for name in set(model) - {"weights"}:
        np.testing.assert_array_equal(back[name], model[name])


def test_a_model_of_sklearn_is_taken_over(items: np.ndarray) -> None:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(max_iter=1000).fit(items[:, 1:], items[:, 0])
    ours = estimators.predict(estimators.from_estimator(fitted), items[:, 1:])
    np.testing.assert_array_equal(ours, fitted.predict(items[:, 1:]))
    with pytest.raises(ConfigError, match="LogisticRegression is not a fitted"):
        estimators.from_estimator(LogisticRegression())


def test_of_sklearn_s_linear_models_those_of_one_output_are_taken_over(items: np.ndarray) -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression, SGDOneClassSVM

    features, labels = items[:, 1:], items[:, 0]
    for intercept in (True, False):
        one = LinearRegression(fit_intercept=intercept).fit(features, labels[:, np.newaxis])
        assert estimators.from_estimator(one)["coefficients"].shape == (28,)
        two = LinearRegression(fit_intercept=intercept).fit(features, np.column_stack([labels, labels]))
        with pytest.raises(ConfigError, match="LinearRegression is not a fitted linear model"):
            estimators.from_estimator(two)
    with pytest.raises(ConfigError, match="SGDOneClassSVM is not a fitted linear model"):
        estimators.from_estimator(SGDOneClassSVM().fit(features))
    named = LogisticRegression(max_iter=1000).fit(features, np.where(labels > 0, "yes", "no"))
    with pytest.raises(ConfigError, match="the classes no, yes are no numbers"):
        estimators.from_estimator(named)


def test_estimators_that_predict_by_more_than_their_coefficients_are_refused(items: np.ndarray) -> None:
    from sklearn.cross_decomposition import PLSRegression
    from sklearn.linear_model import GammaRegressor, PoissonRegressor, Ridge
    from sklearn.svm import OneClassSVM

    features, values = items[:300, 1:], items[:300, 1] + 2.0
    for odd in (PoissonRegressor(), GammaRegressor(), PLSRegression(1), OneClassSVM(kernel="linear")):
        with pytest.raises(ConfigError, match=f"{type(odd).__name__} predicts by more than its coefficients"):
            estimators.from_estimator(odd.fit(features, values))
    single = features.astype(np.float32)
    model = estimators.from_estimator(Ridge().fit(single, values.astype(np.float32)))
    np.testing.assert_allclose(
        estimators.predict(model, features), Ridge().fit(features, values).predict(features), 1e-3
    )


def test_clusters_are_taken_over_where_the_nearest_centre_is_what_counts() -> None:
    from sklearn.cluster import AffinityPropagation, BisectingKMeans, KMeans, MeanShift

    features = np.random.default_rng(0).normal(size=(140, 2)) + np.repeat([[0, 0], [6, 6], [0, 9], [9, 0]], 35, axis=0)
    for fitted in (KMeans(4, n_init=1).fit(features.astype(np.float32)), MeanShift(bandwidth=2).fit(features)):
        model = estimators.from_estimator(fitted)
        assert model["weights"].tolist() == np.bincount(fitted.labels_).tolist()
    aside = MeanShift(bandwidth=2, cluster_all=False).fit(features)
    assert estimators.from_estimator(aside)["weights"].sum() == (aside.labels_ >= 0).sum() < len(features)
    with pytest.raises(ConfigError, match="BisectingKMeans predicts by more than its centres"):
        estimators.from_estimator(BisectingKMeans(6, random_state=0).fit(features))
    with pytest.warns(Warning), pytest.raises(ConfigError, match="AffinityPropagation found no centres"):
        estimators.from_estimator(AffinityPropagation(max_iter=1, random_state=0).fit(features))


def test_sparse_coefficients_are_taken_over(items: np.ndarray) -> None:
    from sklearn.linear_model import SGDClassifier

    fitted = SGDClassifier(penalty="l1", random_state=0).fit(items[:300, 1:], items[:300, 0])
    dense = estimators.from_estimator(fitted)
    np.testing.assert_array_equal(estimators.from_estimator(fitted.sparsify())["coefficients"], dense["coefficients"])


def test_a_network_of_regression_goes_both_ways_and_others_are_refused(items: np.ndarray) -> None:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    features, labels = items[:200, 1:], items[:200, 0]
    with pytest.warns(match="Maximum iterations"):
        fitted = MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", max_iter=2).fit(features, labels)
        deep = MLPClassifier(hidden_layer_sizes=(4, 4), max_iter=2).fit(features, labels)
        three = MLPClassifier(hidden_layer_sizes=(4,), max_iter=2).fit(features, np.arange(200) % 3)
    model = estimators.from_estimator(fitted)
    assert "classes" not in model
    back = estimators.to_estimator(model)
    assert type(back) is MLPRegressor
    np.testing.assert_array_equal(back.predict(features), fitted.predict(features))
    np.testing.assert_allclose(estimators.predict(model, features), fitted.predict(features), rtol=1e-12, atol=1e-12)
    for other in (deep, three):
        with pytest.raises(ConfigError, match="MLPClassifier is no network of one hidden layer"):
            estimators.from_estimator(other)


def test_bad_files_are_named(tmp_path: Path) -> None:
    for name, content in {"missing": None, "empty": b"", "text": b"no model", "cut": b"PK\x03\x04abc"}.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name} is not a model"):
            estimators.load_model(tmp_path / name)
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"array.npy is not a model"):
        estimators.load_model(tmp_path / "array.npy")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(DataError, match=r"holds \['x'\], not a model"):
        estimators.load_model(tmp_path / "other.npz")


@given(st.data())
def test_a_file_with_changed_bytes_is_a_model_or_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("models") / "model.npz"
    np.savez_compressed(path, coefficients=np.arange(28.0), intercept=np.zeros(1))
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        estimators.load_model(path)


def test_items_of_another_width_or_without_label_are_refused(model: dict[str, np.ndarray], items: np.ndarray) -> None:
    with pytest.raises(DataError, match="27 features, the model 28"):
        estimators.evaluate(model, items[:, :28], [f"c{i}" for i in range(28)], "c0")
    if "centres" not in model:
        with pytest.raises(DataError, match="no label column"):
            estimators.evaluate(model, items, [f"c{i}" for i in range(29)], None)


@pytest.mark.filterwarnings("error")
def test_no_items_say_nothing_of_a_model(model: dict[str, np.ndarray], items: np.ndarray) -> None:
    assert estimators.evaluate(model, items[:0], [f"c{i}" for i in range(29)], "c0") == {"items": 0.0}


def test_a_wrong_name_and_a_missing_sklearn_are_said(
    model: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="the model is no RandomForest"):
        estimators.to_estimator(model, "RandomForest")
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigError, match="scikit-learn is not installed"):
        estimators.to_estimator(model)


@pytest.mark.parametrize("model", [{"coefficients": np.ones(2), "intercept": np.zeros(1)}, {"centres": np.eye(2)}])
def test_rows_may_be_lists_and_a_row_alone_is_refused(model: estimators.Model) -> None:
    rows = [[1.0, 2.0], [0.0, 3.0]]
    np.testing.assert_array_equal(estimators.predict(model, rows), estimators.predict(model, np.array(rows)))
    with pytest.raises(DataError, match=r"the features are an array of shape \(2,\)"):
        estimators.predict(model, rows[0])
