"""The kernels against plain NumPy: bit for bit in the same order of sums, to 1e-12 against BLAS."""

from __future__ import annotations

import dumb_math
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.operators.learning import blockmath

LOSSES = {"squared": blockmath.SQUARED, "logistic": blockmath.LOGISTIC, "hinge": blockmath.HINGE}
shapes = st.tuples(st.integers(0, 200), st.integers(2, 37), st.integers(0, 2**32 - 1))


def block(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Items with a 0/1 label in some column, a state for them, the label's column."""
    generator = np.random.default_rng(seed)
    label = int(generator.integers(columns))
    items, state = generator.normal(size=(rows, columns)), generator.normal(size=columns + 1)
    items[:, label] = generator.integers(0, 2, rows)
    state[label] = 0.0
    return items, state, label


def losses(loss: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss per item, by the textbook."""
    sign = 2 * y - 1
    if loss == "squared":
        return np.square(z - y) / 2
    return np.logaddexp(0, -sign * z) if loss == "logistic" else np.maximum(0, 1 - sign * z)


@pytest.mark.parametrize("loss", LOSSES)
@given(shape=shapes)
@settings(max_examples=60, deadline=None)
def test_gradient_is_that_of_the_dumb_loop_to_the_last_bit(loss: str, shape: tuple[int, int, int]) -> None:
    items, state, label = block(*shape)
    gradient, _ = blockmath.linear_result(LOSSES[loss], items, state, label)
    np.testing.assert_array_equal(gradient, dumb_math.linear_gradient(loss, items, state, label))


@pytest.mark.parametrize("loss", LOSSES)
@given(shape=shapes)
@settings(max_examples=60, deadline=None)
def test_gradient_and_statistics_are_those_of_blas(loss: str, shape: tuple[int, int, int]) -> None:
    items, state, label = block(*shape)
    gradient, (count, loss_sum, correct) = blockmath.linear_result(LOSSES[loss], items, state, label)
    z, y = items @ state[:-1] + state[-1], items[:, label]
    r = dumb_math.residuals(loss, z, y)
    expected = np.append(items.T @ r, r.sum())
    expected[label] = 0.0
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12 * max(1, len(items)))
    assert count == len(items)
    assert loss_sum == pytest.approx(losses(loss, z, y).sum(), rel=1e-12)
    if loss != "squared":
        assert correct == np.count_nonzero((z > 0) == (y > 0.5))


@given(shape=shapes, k=st.integers(1, 9))
@settings(max_examples=80, deadline=None)
def test_centres_get_the_sums_of_their_nearest_items(shape: tuple[int, int, int], k: int) -> None:
    items, _, label = block(*shape)
    centres = np.random.default_rng(shape[2] + 1).normal(size=(k, shape[1]))
    centres[:, label] = 0.0
    mask = np.ones(shape[1])
    mask[label] = 0.0
    sums, counts, inertia = blockmath.kmeans_result(items, centres, mask)
    index = dumb_math.nearest(items, centres)
    expected = np.zeros_like(centres)
    np.add.at(expected, index, items)
    expected[:, label] = 0.0
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(counts, np.bincount(index, minlength=k))
    distances = np.square((items[:, np.newaxis] - centres) * mask).sum(axis=2)
    assert inertia == pytest.approx(distances.min(axis=1).sum(), rel=1e-12)


def test_a_tie_goes_to_the_lowest_index() -> None:
    items = np.ones((5, 6))
    _, counts, _ = blockmath.kmeans_result(items, np.zeros((3, 6)), np.ones(6))
    assert counts.tolist() == [5, 0, 0]


def test_logistic_is_exact_over_the_whole_range_of_margins() -> None:
    margins = np.concatenate([np.linspace(-745, 745, 4001), [0.0, -0.0, 1e-300, 36.7, -36.7, 1e300, -1e300]])
    for margin in margins:
        items = np.array([[0.0, margin, 0.0, 0.0], [1.0, margin, 0.0, 0.0]])
        gradient, (_, loss, _) = blockmath.linear_result(blockmath.LOGISTIC, items, np.array([0, 1.0, 0, 0, 0]), 0)
        probability = 1 / (1 + np.exp(-margin)) if margin > -708 else 0.0
        assert gradient[-1] == pytest.approx(2 * probability - 1, rel=1e-15, abs=4e-16)
        assert loss == pytest.approx(np.logaddexp(0, margin) + np.logaddexp(0, -margin), rel=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
def test_nan_is_not_hidden(loss: str) -> None:
    items = np.zeros((70, 5))
    items[67, 2] = np.nan
    gradient, statistics = blockmath.linear_result(LOSSES[loss], items, np.ones(6), 0)
    assert np.isnan(gradient).any() and np.isnan(statistics[1])


def test_labels_that_were_decoded_with_rounding_count_the_same() -> None:
    items, state, label = block(100, 12, 3)
    near = items.copy()
    near[:, label] += 1e-9
    for loss in ("logistic", "hinge"):
        for exact, rounded in zip(*(blockmath.linear_result(LOSSES[loss], x, state, label) for x in (items, near))):
            np.testing.assert_array_equal(exact, rounded)


@pytest.mark.parametrize(("items", "label"), [(np.zeros((3, 4)), 0), (np.zeros(5), 0), (np.zeros((3, 5)), 5)])
def test_shapes_that_do_not_fit_are_refused(items: np.ndarray, label: int) -> None:
    with pytest.raises(ValueError, match="column"):
        blockmath.linear_result(blockmath.LOGISTIC, items, np.zeros(6), label)


def test_other_dtypes_and_strides_are_read_as_float64() -> None:
    items, state, label = block(100, 12, 5)
    expected = blockmath.linear_result(blockmath.LOGISTIC, np.ascontiguousarray(items[::3]), state, label)[0]
    np.testing.assert_array_equal(blockmath.linear_result(blockmath.LOGISTIC, items[::3], state, label)[0], expected)
    whole = np.rint(items).astype(np.int32)
    as_float = blockmath.linear_result(blockmath.LOGISTIC, whole.astype(np.float64), state, label)[0]
    np.testing.assert_array_equal(blockmath.linear_result(blockmath.LOGISTIC, whole, state, label)[0], as_float)
