"""Trained models after the job: load and save them, judge them on items, exchange them with scikit-learn.

A model is the dictionary of arrays that a sink's `model` returns. Its names say what it is: `centres` are k-means,
`coefficients` with `classes` a linear classifier, without them a linear regression, with `hidden_weights` beside them a
network of one hidden layer.
"""

from __future__ import annotations

import importlib
import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from riprap.codec.array_files import write_arrays
from riprap.codec.errors import ConfigError, DataError
from riprap.codec.files import replacing
from riprap.operators.learning.hidden_layer import ACTIVATIONS, HiddenLayer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Model = Mapping[str, np.ndarray]

TRIED_ROWS = 16
"""Rows on which a model is compared with the estimator that it was taken from."""
TRIED_ROWS_PER_CENTRE = 100

_MODULES = {
    "KMeans": "sklearn.cluster",
    "LinearRegression": "sklearn.linear_model",
    "LogisticRegression": "sklearn.linear_model",
    "SGDClassifier": "sklearn.linear_model",
    "LinearSVC": "sklearn.svm",
    "MLPClassifier": "sklearn.neural_network",
    "MLPRegressor": "sklearn.neural_network",
}


def load_model(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The model in an .npz file; DataError when there is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            model = {name: file[name] for name in file.files}
    except (OSError, ValueError, TypeError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not a model: {error}", "Name the model.npz of a job that completed.") from error
    if "centres" not in model and not {"coefficients", "intercept"} <= model.keys():
        raise DataError(f"{path} holds {sorted(model)}, not a model", "Name the model.npz of a job that completed.")
    return model


def save_model(path: str | os.PathLike[str], model: Model) -> None:
    """Write an .npz file that `load_model` reads."""
    with replacing(path) as file:
        write_arrays(file, model)


def predict(model: Model, features: ArrayLike) -> np.ndarray:
    """Per row of features: the class, the value, or the index of the nearest centre. DataError on a wrong width."""
    rows = np.asarray(features)
    if "centres" in model:
        _check_width(model["centres"].shape[1], rows)
        return _squared_distances(model["centres"], rows).argmin(axis=1)
    if "hidden_weights" in model:
        _check_width(model["hidden_weights"].shape[0], rows)
        rows = HiddenLayer.of(model).activate(rows @ model["hidden_weights"])
    _check_width(len(model["coefficients"]), rows)
    margins = rows @ model["coefficients"] + model["intercept"]
    return model["classes"][(margins > 0).astype(int)] if "classes" in model else margins


def evaluate(model: Model, items: np.ndarray, columns: Sequence[str], label: str | None) -> dict[str, float]:
    """Quality of a model on items it did not learn from: accuracy, r2 or inertia (mean squared distance), and items.

    Of no items nothing but their number. DataError when the items have another number of features than the model, or
    lack the label.
    """
    features = items[:, [i for i, name in enumerate(columns) if name != label]]
    count = {"items": float(len(items))}
    if "centres" in model:
        _check_width(model["centres"].shape[1], features)
        if not len(items):
            return count
        return {"inertia": float(_squared_distances(model["centres"], features).min(axis=1).mean())} | count
    if label is None or label not in columns:
        raise DataError(f"the items have no label column {label!r} to judge the model by", "Name the label column.")
    truth = items[:, list(columns).index(label)]
    predicted = predict(model, features)
    if not len(items):
        return count
    if "classes" in model:
        return {"accuracy": float(np.mean(predicted == truth))} | count
    unexplained, total = np.square(truth - predicted).sum(), np.square(truth - truth.mean()).sum()
    return {"r2": float(1.0 - unexplained / total) if total else float("nan")} | count


def to_estimator(model: Model, name: str = "") -> Any:
    """The model as a fitted scikit-learn estimator.

    `name`: for a classifier, LogisticRegression (the default), LinearSVC or SGDClassifier; they predict alike. The
    others are LinearRegression, KMeans, MLPClassifier and MLPRegressor. ConfigError without scikit-learn, or for a name
    that does not fit the model.
    """
    names = _estimators(model)
    name = name or names[0]
    if name not in names:
        raise ConfigError(f"the model is no {name}", f"It can be loaded as {' or '.join(names)}.")
    estimator = getattr(_sklearn(_MODULES[name]), name)()
    if "centres" in model:
        return _fill_kmeans(estimator, model["centres"])
    if "hidden_weights" in model:
        return _fill_network(estimator, model)
    classifier = "classes" in model
    estimator.coef_ = np.atleast_2d(model["coefficients"]) if classifier else model["coefficients"].copy()
    estimator.intercept_ = model["intercept"].copy() if classifier else float(model["intercept"][0])
    if classifier:
        estimator.classes_ = model["classes"].copy()
    estimator.n_features_in_ = len(model["coefficients"])
    return estimator


def from_estimator(estimator: Any) -> dict[str, np.ndarray]:
    """The model of a fitted estimator of scikit-learn: linear, k-means, or a network of one hidden layer.

    ConfigError for any other, and for one of more than two classes or one output, whose classes are no numbers, or that
    predicts by more than its coefficients or centres: by a link function, say.
    """
    if hasattr(estimator, "cluster_centers_"):
        return _model_of_clusters(estimator)
    classes = getattr(estimator, "classes_", None)
    if hasattr(estimator, "coefs_"):
        return _model_of_network(estimator, classes)
    if not _is_linear(estimator) or (classes is not None and len(classes) != 2):
        raise ConfigError(
            f"{type(estimator).__name__} is not a fitted linear model, two-class classifier, network or k-means",
            "Fit one of those and pass it.",
        )
    coefficients = estimator.coef_
    if hasattr(coefficients, "toarray"):  # it was made sparse, or fitted on sparse items
        coefficients = coefficients.toarray()
    model = {
        "coefficients": np.array(coefficients, dtype=np.float64).ravel(),
        "intercept": np.array(estimator.intercept_, dtype=np.float64).reshape(1),
    }
    if classes is not None:
        model["classes"] = _labels(classes)
    rows = np.random.default_rng(0).standard_normal((TRIED_ROWS, len(model["coefficients"])))
    _check_alike(estimator, model, rows, "coefficients and its intercept")
    return model


def _model_of_clusters(estimator: Any) -> dict[str, np.ndarray]:
    centres = np.array(estimator.cluster_centers_, dtype=np.float64)
    if not centres.size:
        raise ConfigError(f"{type(estimator).__name__} found no centres", "Fit one that finds some.")
    clustered = estimator.labels_[estimator.labels_ >= 0]  # the others are noise
    model = {"centres": centres, "weights": np.bincount(clustered, minlength=len(centres)).astype(np.float64)}
    apart = np.random.default_rng(0).standard_normal((TRIED_ROWS_PER_CENTRE * len(centres), centres.shape[1]))
    rows = centres.mean(axis=0) + centres.std(axis=0) * apart
    _check_alike(estimator, model, rows.astype(estimator.cluster_centers_.dtype), "centres")
    return model


def _check_alike(estimator: Any, model: Model, rows: np.ndarray, by: str) -> None:
    """ConfigError unless the model predicts as the estimator does, but for the rounding of float32."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may have been fitted on columns with names
        expected = np.asarray(estimator.predict(rows), np.float64).ravel()
    if np.abs(predict(model, rows) - expected).max() > 1e-5 * np.abs(expected).max():
        raise ConfigError(
            f"{type(estimator).__name__} predicts by more than its {by}",
            "Pass a linear regression, a linear classifier of two classes, or k-means.",
        )


def _is_linear(estimator: Any) -> bool:
    """True when it is fitted, and has one output."""
    if not hasattr(estimator, "coef_") or not hasattr(estimator, "intercept_"):
        return False
    shape = np.shape(estimator.coef_)
    return math.prod(shape) == shape[-1] and np.size(estimator.intercept_) == 1


def _labels(classes: Any) -> np.ndarray:
    try:
        return np.array(classes, dtype=np.float64)
    except ValueError as error:
        named = ", ".join(map(str, classes))
        raise ConfigError(f"the classes {named} are no numbers", "Fit on labels such as 0 and 1.") from error


def _estimators(model: Model) -> tuple[str, ...]:
    if "centres" in model:
        return ("KMeans",)
    if "hidden_weights" in model:
        return ("MLPClassifier",) if "classes" in model else ("MLPRegressor",)
    return ("LogisticRegression", "LinearSVC", "SGDClassifier") if "classes" in model else ("LinearRegression",)


def _fill_kmeans(estimator: Any, centres: np.ndarray) -> Any:
    estimator.set_params(n_clusters=len(centres), n_init=1)
    estimator.fit(centres)  # sets the private parts that predict needs; the centres are put in their own order below
    estimator.cluster_centers_ = np.ascontiguousarray(centres)
    estimator.labels_ = np.arange(len(centres), dtype=np.int32)
    return estimator


def _model_of_network(estimator: Any, classes: Any) -> dict[str, np.ndarray]:
    output = "identity" if classes is None else "logistic"
    layers, known = len(estimator.coefs_), estimator.activation in ACTIVATIONS and estimator.out_activation_ == output
    if layers != 2 or estimator.n_outputs_ != 1 or not known:
        raise ConfigError(
            f"{type(estimator).__name__} is no network of one hidden layer ({', '.join(ACTIVATIONS)}) and one output",
            "Fit one with hidden_layer_sizes=(N,) on two classes or one value.",
        )
    weights = [np.array(weights, dtype=np.float64) for weights in estimator.coefs_]
    intercepts = [np.array(intercept, dtype=np.float64) for intercept in estimator.intercepts_]
    layer = HiddenLayer(weights[0], intercepts[0], estimator.activation)
    model = {**layer.arrays(), "coefficients": weights[1].ravel(), "intercept": intercepts[1]}
    return model if classes is None else model | {"classes": _labels(classes)}


def _fill_network(estimator: Any, model: Model) -> Any:
    layer, classifier = HiddenLayer.of(model), "classes" in model
    estimator.set_params(hidden_layer_sizes=(len(layer.intercept),), activation=layer.activation)
    estimator.coefs_ = [layer.weights.copy(), model["coefficients"].reshape(-1, 1).copy()]
    estimator.intercepts_ = [layer.intercept.copy(), model["intercept"].copy()]
    estimator.n_layers_, estimator.n_outputs_, estimator.n_features_in_ = 3, 1, len(layer.weights)
    estimator.out_activation_ = "logistic" if classifier else "identity"
    if classifier:
        estimator.classes_ = model["classes"].copy()
        estimator._label_binarizer = _sklearn("sklearn.preprocessing").LabelBinarizer().fit(estimator.classes_)
    return estimator


def _sklearn(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError("scikit-learn is not installed", "Install it: pip install 'riprap[sklearn]'.") from error


def _check_width(expected: int, features: np.ndarray) -> None:
    if features.ndim != 2:
        raise DataError(f"the features are an array of shape {features.shape}", "Give rows x features.")
    if features.shape[1] != expected:
        raise DataError(
            f"the items have {features.shape[1]} features, the model {expected}",
            "Use the data set that the model was trained on.",
        )


def _squared_distances(centres: np.ndarray, features: np.ndarray) -> np.ndarray:
    """(rows, centres), one centre after the other so as to need no third dimension."""
    return np.stack([np.square(features - centre).sum(axis=1) for centre in centres], axis=1)
