"""scikit-learn's interface to the linear models, and River's: fit in this process, or by a job that survives failures.

model = RiprapSGDClassifier(processors=3, scheme="erasure", micro_batch=1000)
model.fit(X, y)                    # a job of 3 processors, of which any one may die
model.partial_fit(more_X, more_y)  # goes on in this process
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from riprap.configs.loading import load
from riprap.engine.api.compose import Job, scheme
from riprap.engine.api.local import LocalTraining, unit_of
from riprap.operators.base import Context, Processor, Sink
from riprap.operators.learning.blockmath import logistic
from riprap.operators.loading import make_operator
from riprap.writing import write_shards

LABEL = "label"
LOSSES = {"log_loss": "logistic_regression", "hinge": "svm", "squared_error": "linear_regression"}
"""By scikit-learn's names, the modules whose operators minimise them."""


class _Linear(BaseEstimator):
    """Base of both estimators: mini-batch gradient descent in the order of the rows, which are not shuffled.

    `alpha`: weight of the L2 term. `eta0`: the first step's size, later ones are divided by the square root of their
    number; None: 1 / (1 + mean squared norm of the first rows), with which steps on the squared error do not diverge.
    `max_iter`: passes of `fit` over the rows. `micro_batch`: rows a step. `processors`: 0 trains in this process; n > 0
    has `fit` run a job of n processors, each a process of its own, under `scheme`: a name, or a section such as
    riprap.erasure(k=4, r=2). A bare "erasure" has one parity block a stripe.
    """

    _losses: Sequence[str]
    _supervised = True
    """As River's pipelines ask."""

    def __init__(
        self, loss: str, *, alpha: float, fit_intercept: bool, max_iter: int, eta0: float | None, micro_batch: int,
        processors: int, scheme: str | Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.eta0 = eta0
        self.micro_batch = micro_batch
        self.processors = processors
        self.scheme = scheme

    def _train(self, features: np.ndarray, targets: np.ndarray) -> None:
        """From the beginning, `max_iter` passes, in this process or by a job."""
        rows = np.column_stack([targets, features])
        self.__dict__.pop("summary_", None)
        if self.processors:
            self._training = self._by_job(rows)
        else:
            self._training = self._begin(rows)
            self._training.feed(_repeated(rows), len(rows) * self.max_iter)
        self.n_iter_ = self.max_iter
        self._take_over()

    def _learn(self, features: np.ndarray, targets: np.ndarray) -> None:
        """One pass, in this process, from the model so far."""
        rows = np.column_stack([targets, features])
        if not hasattr(self, "_training"):
            self._training = self._begin(rows)
        self._training.feed(lambda start, stop: rows[start:stop], len(rows))
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self._take_over()

    def _operators(self, rows: np.ndarray) -> tuple[str, dict[str, Any]]:
        """The module of the operators, and the options of its Model; ValueError for another loss, or for what is no
        number of rows or passes."""
        if self.loss not in self._losses:
            raise ValueError(f"loss is {self.loss!r}, expected one of {', '.join(self._losses)}")
        for name in ("micro_batch", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is {value!r}, expected a whole number from 1")
        rate = 1.0 / (1.0 + float(np.square(rows[:, 1:]).sum(axis=1).mean())) if self.eta0 is None else self.eta0
        return LOSSES[self.loss], {"learning_rate": rate, "l2": self.alpha, "intercept": self.fit_intercept}

    def _begin(self, rows: np.ndarray, unit: int = 1) -> LocalTraining:
        module, options = self._operators(rows)
        processor, sink = make_operator(f"{module}:Gradient", {}), make_operator(f"{module}:Model", options)
        assert isinstance(processor, Processor) and isinstance(sink, Sink)
        return LocalTraining(processor, sink, Context(_columns(rows.shape[1]), LABEL), self.micro_batch, unit)

    def _by_job(self, rows: np.ndarray) -> LocalTraining:
        """Run a job on the rows; the training that goes on from its model, as the job itself would."""
        module, options = self._operators(rows)
        with tempfile.TemporaryDirectory(prefix="riprap-fit-") as folder:
            write_shards(Path(folder, "rows"), rows, label=LABEL, columns=_columns(rows.shape[1]))
            job = Job(
                "fit", input=Path(folder, "rows"), repeat=self.max_iter, micro_batch=self.micro_batch,
                scheme=self._scheme(),
            )  # fmt: skip
            source = job.stage("source", "shard_source:ShardSource")
            processor = job.stage("processor", f"{module}:Gradient", parallelism=self.processors)
            sink = job.stage("sink", f"{module}:Model", **options)
            source.to(processor, "stripe").to(sink, "merge").feed_back(processor)
            with job.start(out=Path(folder, "run")) as run:
                self.summary_ = run.wait()
                model = run.model()
            unit = unit_of(load(Path(folder, "run", "topology.yaml")))
        training = self._begin(rows, unit)
        state = np.concatenate([[0.0], model["coefficients"], model["intercept"]])
        training.go_on_from(state, self.summary_["epochs"])
        return training

    def _scheme(self) -> Mapping[str, Any]:
        if self.scheme == "erasure":
            return scheme("erasure", k=max(1, self.processors - 1), r=1)
        return scheme(self.scheme) if isinstance(self.scheme, str) else self.scheme

    def _take_over(self) -> None:
        """Show the model as scikit-learn's attributes; ValueError when it is not finite."""
        model = self._training.sink.model()
        self._coefficients, self._intercept = model["coefficients"], model["intercept"]
        if not (np.isfinite(self._coefficients).all() and np.isfinite(self._intercept).all()):
            raise ValueError("the model is not finite: scale the features (StandardScaler), or lower eta0")

    def _margins(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "n_iter_")
        features = validate_data(self, X, dtype=np.float64, reset=False)
        margins: np.ndarray = features @ self._coefficients + self._intercept
        return margins

    # River's protocol: items are mappings of names to numbers, mini-batches are DataFrames
    def learn_one(self, x: Mapping[str, float], y: Any) -> None:
        """River: learn one item, as a micro-batch of its own. KeyError when it lacks a feature of the first one,
        ValueError when a number is not finite."""
        names = self._names(x)
        row, labels = _row(x, names), np.array([y])
        self._know(labels)
        targets = self._targets(labels)
        self.feature_names_in_, self.n_features_in_ = names, len(names)
        self._learn(row, targets)

    def learn_many(self, X: Any, y: Any) -> None:
        """River: learn a DataFrame of items with a Series of labels; one micro-batch, or several large ones."""
        X, labels = validate_data(self, X, np.asarray(y), dtype=np.float64, reset=not hasattr(self, "n_iter_"))
        self._know(labels)
        self._learn(X, self._targets(labels))

    def predict_one(self, x: Mapping[str, float]) -> Any:
        """River: the prediction for one item; None before the first was learned."""
        if not hasattr(self, "n_iter_"):
            return None
        return self._predicted(_row(x, self._names(x)) @ self._coefficients + self._intercept)[0].item()

    def predict_many(self, X: Any) -> Any:
        """River: a Series of the predictions for a DataFrame's items."""
        return type(X.iloc[:, 0])(self.predict(X), index=X.index)

    def predict(self, X: Any) -> np.ndarray:
        """The prediction for each row (rows, features): a class, or a value."""
        return self._predicted(self._margins(X))

    def _names(self, x: Mapping[str, float]) -> np.ndarray:
        """The features in their order: this item's where none were named before. ValueError where it has another
        number of them than the rows that were learned."""
        if hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        if len(x) != getattr(self, "n_features_in_", len(x)):
            raise ValueError(f"the item has {len(x)} features, the model {self.n_features_in_}")
        return np.array(list(x), dtype=object)

    def _know(self, labels: np.ndarray) -> None:
        """Take in the labels that there are, before the first are learned."""

    def _targets(self, labels: np.ndarray) -> np.ndarray:
        """The labels as the operators learn them."""
        raise NotImplementedError

    def _predicted(self, margins: np.ndarray) -> np.ndarray:
        """Meaning of margins."""
        raise NotImplementedError


class RiprapSGDClassifier(ClassifierMixin, _Linear):
    """A linear classifier of two classes, which may be any labels: `loss` is "log_loss" or "hinge".

    Parameters: docs/python_api.md. Attributes after fitting: `classes_`, `coef_` (1, features), `intercept_` (1,),
    `n_iter_` (passes), `summary_` (of the job, if `fit` ran one). For more classes, sklearn.multiclass.
    """

    _losses = ("log_loss", "hinge")

    def __init__(
        self, loss: str = "log_loss", *, alpha: float = 0.0001, fit_intercept: bool = True, max_iter: int = 20,
        eta0: float = 1.0, micro_batch: int = 32, processors: int = 0, scheme: str | Mapping[str, Any] = "erasure",
    ) -> None:  # fmt: skip
        super().__init__(
            loss, alpha=alpha, fit_intercept=fit_intercept, max_iter=max_iter, eta0=eta0, micro_batch=micro_batch,
            processors=processors, scheme=scheme,
        )  # fmt: skip

    def fit(self, X: Any, y: Any) -> RiprapSGDClassifier:
        """Train on rows X (rows, features) with labels y, from the beginning.

        ValueError for anything but two classes; ConfigError and JobFailed of the job, where one is run.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        self._set_classes(y)
        self._train(X, self._targets(y))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> RiprapSGDClassifier:
        """Go on with one pass over the rows, in this process. `classes` are needed at the first call."""
        first = not hasattr(self, "classes_")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._set_classes(classes)
        self._learn(X, self._targets(y))
        return self

    @property
    def coef_(self) -> np.ndarray:
        """The weights (1, features)."""
        return self._coefficients.reshape(1, -1)

    @property
    def intercept_(self) -> np.ndarray:
        """The intercept (1,)."""
        return self._intercept

    def decision_function(self, X: Any) -> np.ndarray:
        """The margin of each row: above 0 for classes_[1]."""
        return self._margins(X)

    @available_if(lambda self: self.loss == "log_loss")
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities (rows, 2) of the classes; only of a model that minimises the log loss."""
        upper = logistic(np.ascontiguousarray(self._margins(X)))
        return np.column_stack([1.0 - upper, upper])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _set_classes(self, labels: Any) -> None:
        check_classification_targets(labels)
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        classes = np.unique(labels)
        if len(classes) != 2:
            raise ValueError(f"the labels are of {len(classes)} class; two classes are needed")
        self.classes_ = classes

    def _know(self, labels: np.ndarray) -> None:
        """Take in labels that come without classes: False and True, or 0 and 1, one by one; others both at first."""
        if not hasattr(self, "classes_"):
            either = next(
                (pair for pair in (np.array([False, True]), np.array([0, 1])) if _within(labels, pair)), labels
            )
            self._set_classes(either)

    def _targets(self, labels: np.ndarray) -> np.ndarray:
        if not _within(labels, self.classes_):
            raise ValueError(f"labels other than the classes {list(self.classes_)}")
        return (labels == self.classes_[1]).astype(np.float64)

    def _predicted(self, margins: np.ndarray) -> np.ndarray:
        labels: np.ndarray = self.classes_[(margins > 0).astype(int)]
        return labels


class RiprapSGDRegressor(RegressorMixin, _Linear):
    """A linear regression by the squared error. Parameters: docs/python_api.md.

    Attributes after fitting: `coef_` (features,), `intercept_` (1,), `n_iter_`, `summary_`, as the classifier's.
    """

    _losses = ("squared_error",)

    def __init__(
        self, loss: str = "squared_error", *, alpha: float = 0.0001, fit_intercept: bool = True, max_iter: int = 50,
        eta0: float | None = None, micro_batch: int = 32, processors: int = 0,
        scheme: str | Mapping[str, Any] = "erasure",
    ) -> None:  # fmt: skip
        super().__init__(
            loss, alpha=alpha, fit_intercept=fit_intercept, max_iter=max_iter, eta0=eta0, micro_batch=micro_batch,
            processors=processors, scheme=scheme,
        )  # fmt: skip

    def fit(self, X: Any, y: Any) -> RiprapSGDRegressor:
        """Train on rows X (rows, features) with values y, from the beginning; errors as the classifier's."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._train(X, self._targets(y))
        return self

    def partial_fit(self, X: Any, y: Any) -> RiprapSGDRegressor:
        """Go on with one pass over the rows, in this process."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=not hasattr(self, "n_iter_"))
        self._learn(X, self._targets(y))
        return self

    @property
    def coef_(self) -> np.ndarray:
        """The weights (features,)."""
        return self._coefficients

    @property
    def intercept_(self) -> np.ndarray:
        """The intercept (1,)."""
        return self._intercept

    def _targets(self, labels: np.ndarray) -> np.ndarray:
        values = labels.astype(np.float64)
        if not np.isfinite(values).all():  # items come unchecked
            raise ValueError(f"the value is {values[0]}, expected a finite number")
        return values

    def _predicted(self, margins: np.ndarray) -> np.ndarray:
        return margins


def _row(x: Mapping[str, float], names: np.ndarray) -> np.ndarray:
    """An item as a matrix of one row; ValueError for a number that is not finite, which would ruin the model."""
    row = np.array([[x[name] for name in names]], dtype=np.float64)
    for name, value in zip(names, row[0].tolist()):
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}, expected a finite number")
    return row


def _within(labels: np.ndarray, classes: np.ndarray) -> bool:
    """True when all labels are of these classes, and of their type: 1 is not True."""
    return (labels.dtype == bool) == (classes.dtype == bool) and bool(np.isin(labels, classes).all())


def _columns(count: int) -> tuple[str, ...]:
    return (LABEL, *(f"x{number}" for number in range(count - 1)))


def _repeated(rows: np.ndarray) -> Any:
    """`read(start, stop)` of a stream that repeats the rows."""

    def read(start: int, stop: int) -> np.ndarray:
        return rows[np.arange(start, stop) % len(rows)]

    return read
