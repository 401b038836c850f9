"""Steps found from a sample: the moments and their inverse against linear algebra, and what they are robust to."""

from __future__ import annotations

import numpy as np
import pytest
from operator_streams import context_of, higgs, micro_batches, opened, train

from riprap.operators.base import Context
from riprap.operators.learning import curvature, linear_regression, logistic_regression, svm


def rows(columns: int = 6, count: int = 500, seed: int = 0) -> np.ndarray:
    """Columns of very different scales that depend on one another, the first to be the label."""
    generator = np.random.default_rng(seed)
    items = generator.standard_normal((count, columns)) @ generator.standard_normal((columns, columns))
    items[:, 0] = items[:, 0] > 0
    return items * np.append(1.0, 10.0 ** generator.uniform(-3, 3, columns - 1))


def informed(items: np.ndarray) -> Context:
    """A context that knows the moments of these items, c0 being the label."""
    plain = context_of(items)
    moments = curvature.second_moments([items], plain.feature_indexes)
    return Context(plain.columns, plain.label, moments=moments)


def test_moments_are_the_mean_products_of_the_rows_that_are_finite() -> None:
    items = rows()
    broken = items.copy()
    broken[7, 3] = np.nan
    extended = np.column_stack([np.delete(items, 7, axis=0)[:, 1:], np.ones(len(items) - 1)])
    expected = extended.T @ extended / len(extended)
    found = curvature.second_moments([broken[:100], broken[100:]], range(1, 6))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (found == found.T).all(), "to the last bit"


def test_no_rows_give_moments_of_1() -> None:
    assert (curvature.second_moments([], range(3)) == np.eye(4)).all()


def test_the_inverse_is_that_of_linear_algebra() -> None:
    moments = curvature.second_moments([rows()], range(1, 6))
    for l2, intercept in ((0.0, True), (0.5, True), (0.5, False)):
        matrix = 0.25 * moments + np.diag(0.25 * curvature.DAMPING * moments.diagonal() + l2)
        matrix[-1, -1] -= l2 if intercept else 0.0
        found = curvature.inverse(moments, l2, 0.25, intercept)
        np.testing.assert_allclose(found, np.linalg.inv(matrix), rtol=1e-8)
        np.testing.assert_allclose(curvature.times(found, moments[0]), found @ moments[0], rtol=1e-12)


def test_of_many_features_there_is_a_diagonal_that_is_nowhere_less_curved() -> None:
    items = np.random.default_rng(0).standard_normal((600, curvature.FULL_MAX + 30)) + 1.0
    bound = curvature.second_moments([items], range(1, items.shape[1]))
    extended = np.column_stack([items[:, 1:], np.ones(len(items))])
    assert bound.ndim == 1
    assert np.linalg.eigvalsh(np.diag(bound) - extended.T @ extended / len(items))[0] > 0
    np.testing.assert_array_equal(curvature.inverse(bound, 0.0, 1.0), 1 / (bound + curvature.DAMPING * bound))


def test_moments_travel_as_text() -> None:
    for columns in (6, curvature.FULL_MAX + 30):
        moments = curvature.second_moments([rows(columns)], range(1, columns))
        back = curvature.unpacked_moments(curvature.packed_moments(moments))
        assert back is not None
        np.testing.assert_array_equal(back, moments)
    assert curvature.unpacked_moments(None) is None


@pytest.mark.parametrize("columns", [6, curvature.FULL_MAX + 30])
def test_a_feature_that_never_varied_keeps_its_weight_whatever_comes_later(columns: int) -> None:
    items = rows(columns)
    items[:, 3] = -0.006
    context = informed(items)
    assert context.moments is not None and curvature.constant_features(context.moments) == [2]
    items[::50, 3] = 160.0
    for module in (linear_regression, logistic_regression, svm):
        sink = train(*opened(module.Gradient(), module.Model(), context), micro_batches(items, 50, 20))
        assert sink.model()["coefficients"][2] == 0.0 and np.isfinite(sink.model()["coefficients"]).all()
        assert sink.metrics()["recent_loss"] < sink.metrics()["loss"]


def test_a_regression_that_misses_nothing_stays_beside_a_feature_that_never_varied() -> None:
    items = rows()
    items[:, 0], items[:, 3] = 0.0, 7.0
    sink = train(*opened(linear_regression.Gradient(), linear_regression.Model(), informed(items)), [items])
    assert not sink.model()["coefficients"].any() and sink.metrics()["loss"] == 0.0


def test_heavy_tails_that_a_sample_hardly_shows_do_not_make_regression_diverge() -> None:
    generator = np.random.default_rng(0)
    features = np.exp(3 * generator.standard_normal((20_000, 8)))
    items = np.column_stack([generator.integers(0, 2, 20_000).astype(float), features])
    sink = train(
        *opened(linear_regression.Gradient(), linear_regression.Model(), informed(items[:2000])),
        micro_batches(items, 200, 3),
    )
    assert sink.metrics()["recent_loss"] < 0.5 * np.mean(items[:, 0] ** 2) * 2, "twice what weights of 0 have"


def test_the_scales_of_features_do_not_matter() -> None:
    items = higgs()[:4000]
    scaled = items * np.append(1.0, 10.0 ** np.linspace(-3, 3, 28))
    models = [
        train(*opened(svm.Gradient(), svm.Model(), informed(data)), micro_batches(data, 400)).model()
        for data in (items, scaled)
    ]
    weights = models[1]["coefficients"] * 10.0 ** np.linspace(-3, 3, 28)
    np.testing.assert_allclose(weights, models[0]["coefficients"], rtol=1e-6)


def test_one_whole_step_of_linear_regression_is_nearly_least_squares() -> None:
    items = np.random.default_rng(1).standard_normal((20_000, 4))
    items[:, 0] = items[:, 1:] @ [1.0, -2.0, 3.0] + 5.0
    sink = train(*opened(linear_regression.Gradient(), linear_regression.Model(), informed(items)), [items])
    np.testing.assert_allclose(sink.model()["coefficients"], [1.0, -2.0, 3.0], rtol=0.01)
    np.testing.assert_allclose(sink.model()["intercept"], [5.0], rtol=0.01)


def test_a_large_l2_draws_weights_to_0_and_does_not_diverge() -> None:
    items = rows()
    for l2 in (1e-3, 1.0, 1e6):
        model = logistic_regression.Model(l2=l2)
        sink = train(*opened(logistic_regression.Gradient(), model, informed(items)), micro_batches(items, 50, 20))
        assert np.isfinite(sink.model()["coefficients"]).all()
    assert np.abs(sink.model()["coefficients"]).max() < 1e-2


@pytest.mark.parametrize("columns", [6, curvature.FULL_MAX + 30])
@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-155, 1e-140, 1e170])
def test_a_feature_whose_squares_no_float64_holds_spoils_no_other(columns: int, scale: float) -> None:
    items = rows(columns, count=200)
    items[:, 3] *= scale
    with np.errstate(over="ignore"):
        context = informed(items)
    model = train(*opened(svm.Gradient(), svm.Model(), context), micro_batches(items, 50)).model()
    assert np.isfinite(model["coefficients"]).all() and np.count_nonzero(model["coefficients"]) >= columns - 2
    assert context.moments is not None
    assert curvature.constant_features(context.moments) == ([] if scale == 1e-140 else [2])


def test_no_intercept_stays_0_and_few_items_move_little() -> None:
    items = rows()
    model = svm.Model(intercept=False)
    sink = train(*opened(svm.Gradient(), model, informed(items)), micro_batches(items, 50))
    assert sink.model()["intercept"] == 0.0 and sink.model()["coefficients"].any()
    assert curvature.step_size(6 * curvature.ITEMS_PER_WEIGHT, 6, 1) == 1.0
    assert curvature.step_size(1, 6, 1) < 0.1 and curvature.step_size(10**9, 6, 4) == 0.5


def test_where_no_sample_was_looked_at_the_rate_is_the_plain_one() -> None:
    items = higgs()[:1000]
    for module, rate in ((logistic_regression, 1.0), (linear_regression, 0.1)):
        models = [
            train(
                *opened(module.Gradient(), module.Model(**given), context_of(items)), micro_batches(items, 100)
            ).model()
            for given in ({}, {"learning_rate": rate})
        ]
        np.testing.assert_array_equal(models[0]["coefficients"], models[1]["coefficients"])


def test_a_rate_of_ones_own_does_not_look_at_moments() -> None:
    items = higgs()[:1000]
    models = [
        train(*opened(svm.Gradient(), svm.Model(learning_rate=0.5), context), micro_batches(items, 100)).model()
        for context in (context_of(items), informed(items))
    ]
    np.testing.assert_array_equal(models[0]["coefficients"], models[1]["coefficients"])
    assert svm.Model().wants_moments and not svm.Model(learning_rate=0.5).wants_moments
