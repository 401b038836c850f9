"""The linear models against plain loops on the same micro-batches, and against scikit-learn."""

from __future__ import annotations

import dumb_math
import numpy as np
import pytest
from operator_streams import context_of, higgs, micro_batches, opened, train
from sklearn.linear_model import SGDClassifier, SGDRegressor

from bench import numpy_loop
from riprap.codec.errors import ConfigError
from riprap.operators.learning import linear_regression, logistic_regression, svm
from riprap.operators.learning.linear import LinearModel

ALGORITHMS = {
    "squared": (linear_regression, numpy_loop.squared, 0.05),
    "logistic": (logistic_regression, numpy_loop.logistic, 1.0),
    "hinge": (svm, numpy_loop.hinge, 1.0),
}


@pytest.fixture(scope="module")
def items() -> np.ndarray:
    return higgs()


@pytest.mark.parametrize("loss", ALGORITHMS)
def test_same_model_as_the_numpy_loop(loss: str, items: np.ndarray) -> None:
    module, residual, rate = ALGORITHMS[loss]
    model = train(
        *opened(module.Gradient(), module.Model(learning_rate=rate), context_of(items)), micro_batches(items, 1000, 3)
    ).model()
    rival = numpy_loop.train(numpy_loop.Linear(28, residual, rate), micro_batches(items, 1000, 3), label=0)["model"]
    for name, array in rival.items():
        np.testing.assert_allclose(model[name], array, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", ALGORITHMS)
def test_same_model_as_the_dumb_loop_to_the_last_bit(loss: str, items: np.ndarray) -> None:
    module, _, rate = ALGORITHMS[loss]
    items = items[:1500]
    model = train(
        *opened(module.Gradient(), module.Model(learning_rate=rate, l2=0.01), context_of(items)),
        micro_batches(items, 100),
    ).model()
    state = np.zeros(30)
    for epoch, batch in enumerate(micro_batches(items, 100), start=1):
        gradient = dumb_math.linear_gradient(loss, batch, state, 0)
        step = rate / np.sqrt(epoch)
        state[:-1] *= 1.0 - step * 0.01
        state -= step * (gradient / len(batch))
    np.testing.assert_array_equal(np.append(model["coefficients"], model["intercept"]), state[1:])


@pytest.mark.parametrize(("module", "loss"), [(logistic_regression, "log_loss"), (svm, "hinge")])
def test_same_classifier_as_sklearn_item_by_item(module: object, loss: str, items: np.ndarray) -> None:
    rival = SGDClassifier(
        loss=loss,
        penalty="l2",
        alpha=1e-3,
        learning_rate="invscaling",
        eta0=0.1,
        power_t=0.5,
        shuffle=False,
        max_iter=1,
    )
    _check_against_sklearn(rival, module, items, l2=1e-3, learning_rate=0.1)


def test_same_regression_as_sklearn_item_by_item(items: np.ndarray) -> None:
    rival = SGDRegressor(penalty=None, learning_rate="invscaling", eta0=0.01, power_t=0.5, shuffle=False, max_iter=1)
    _check_against_sklearn(rival, linear_regression, items, l2=0.0, learning_rate=0.01)


def _check_against_sklearn(rival: object, module: object, items: np.ndarray, **options: float) -> None:
    items = items[:2000]
    with pytest.warns(match="Maximum number of iteration"):
        rival.fit(items[:, 1:], items[:, 0])
    sink = train(*opened(module.Gradient(), module.Model(**options), context_of(items)), micro_batches(items, 1))
    np.testing.assert_allclose(sink.model()["coefficients"], rival.coef_.ravel(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sink.model()["intercept"], rival.intercept_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("module", "loss"), [(logistic_regression, "log_loss"), (svm, "hinge")])
def test_accuracy_on_higgs_is_within_a_point_of_sklearns(module: object, loss: str, items: np.ndarray) -> None:
    learn, judge = items[:8000], items[8000:]
    rivals = [SGDClassifier(loss=loss, random_state=seed).fit(learn[:, 1:], learn[:, 0]) for seed in range(5)]
    theirs = max(rival.score(judge[:, 1:], judge[:, 0]) for rival in rivals)
    model = train(*opened(module.Gradient(), module.Model(), context_of(items)), micro_batches(learn, 100, 20)).model()
    predicted = judge[:, 1:] @ model["coefficients"] + model["intercept"] > 0
    assert np.mean(predicted == judge[:, 0]) > theirs - 0.01


def test_blocks_of_an_epoch_add_up(items: np.ndarray) -> None:
    whole, parts = (
        train(
            *opened(logistic_regression.Gradient(), logistic_regression.Model(), context_of(items)),
            micro_batches(items, 1000),
            blocks=blocks,
        )
        for blocks in (1, 7)
    )
    np.testing.assert_allclose(whole.model()["coefficients"], parts.model()["coefficients"], rtol=1e-12)
    assert whole.metrics()["accuracy"] == parts.metrics()["accuracy"]


def test_metrics_judge_each_item_before_it_is_learnt_from(items: np.ndarray) -> None:
    processor, sink = opened(logistic_regression.Gradient(), logistic_regression.Model(fading=0), context_of(items))
    assert sink.metrics() == {}
    train(processor, sink, [items[:100]])
    negatives = float(np.mean(items[:100, 0] == 0))  # weights 0 say class 0
    assert sink.metrics()["accuracy"] == pytest.approx(negatives)
    assert sink.metrics()["loss"] == pytest.approx(np.log(2), rel=1e-12)


def test_no_intercept_stays_zero_and_an_epoch_without_items_changes_nothing(items: np.ndarray) -> None:
    processor, sink = opened(svm.Gradient(), svm.Model(intercept=False), context_of(items))
    before = train(processor, sink, micro_batches(items[:500], 100)).model()
    sink.commit(6)
    assert before["intercept"] == 0.0
    np.testing.assert_array_equal(sink.model()["coefficients"], before["coefficients"])


def test_label_in_any_column_gives_the_same_model(items: np.ndarray) -> None:
    moved = np.column_stack([items[:, 1:10], items[:, 0], items[:, 10:]])
    models = [
        train(*opened(svm.Gradient(), svm.Model(), context_of(data, label)), micro_batches(data, 500)).model()
        for data, label in ((items, 0), (moved, 9))
    ]
    np.testing.assert_allclose(models[0]["coefficients"], models[1]["coefficients"], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0}, "learning_rate is 0, not a number above 0"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'"),
        ({"l2": -1}, "l2 is -1, not a number from 0"),
        ({"l2": float("nan")}, "l2 is nan"),
        ({"fading": 1.5}, "not a number from 0 to 1"),
        ({"intercept": "no"}, "not true or false"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LinearModel.__init__(logistic_regression.Model.__new__(logistic_regression.Model), **options)


def test_items_without_label_or_features_are_refused() -> None:
    with pytest.raises(ConfigError, match="no label column"):
        svm.Gradient().open(context_of(np.zeros((1, 3)), label=None))
    with pytest.raises(ConfigError, match="no feature columns"):
        svm.Gradient().open(context_of(np.zeros((1, 1))))


def test_feedback_of_another_shape_is_refused(items: np.ndarray) -> None:
    processor, _ = opened(svm.Gradient(), svm.Model(), context_of(items))
    with pytest.raises(ValueError, match="expected"):
        processor.process_feedback((np.zeros(3),))
