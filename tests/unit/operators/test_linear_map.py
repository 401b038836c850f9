"""The kernels of prediction: the same bits for an item whatever the block, its address, and the models beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.operators.learning import blockmath

SHAPES = [(1, 1, 1), (3, 2, 5), (4, 3, 4), (5, 4, 3), (7, 29, 2), (66, 100, 11), (13, 101, 31), (2, 5, 13)]


def dumb(items: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sums, column by column from the first to the last."""
    total = np.zeros((len(items), weights.shape[1]))
    for column, row in zip(items.T, weights):
        total += column[:, np.newaxis] * row
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_run_from_the_first_column_to_the_last(shape: tuple[int, int, int]) -> None:
    rows, columns, models = shape
    generator = np.random.default_rng(shape)
    items, weights = generator.standard_normal((rows, columns)), generator.standard_normal((columns, models))
    found = blockmath.linear_map(items, weights)
    assert found.tobytes() == dumb(items, weights).tobytes()
    np.testing.assert_allclose(found, items @ weights, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 40), max_size=6), columns=st.integers(1, 33), models=st.integers(1, 17),
    offset=st.integers(0, 40), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_any_cut_at_any_address_gives_the_same_bits(
    cuts: list[int], columns: int, models: int, offset: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    items, weights = generator.standard_normal((40, columns)), generator.standard_normal((columns, models))
    whole = blockmath.linear_map(items, weights)
    buffer = np.zeros(items.nbytes + offset, dtype=np.uint8)
    buffer[offset:] = items.view(np.uint8).ravel()
    anywhere = buffer[offset:].view(np.float64).reshape(items.shape)
    parts = [blockmath.linear_map(part, weights) for part in np.split(anywhere, sorted(cuts))]
    assert b"".join(part.tobytes() for part in parts) == whole.tobytes()
    alone = blockmath.linear_map(items, np.ascontiguousarray(weights[:, -1:]))
    assert alone.tobytes() == whole[:, -1].tobytes()


def test_empty_blocks_and_wrong_shapes() -> None:
    assert blockmath.linear_map(np.zeros((0, 5)), np.zeros((5, 2))).shape == (0, 2)
    assert blockmath.linear_map(np.zeros((3, 5)), np.zeros((5, 0))).shape == (3, 0)
    with pytest.raises(ValueError, match="a matrix of 4 columns"):
        blockmath.linear_map(np.zeros((3, 5)), np.zeros((4, 2)))


@pytest.mark.parametrize("name", ["logistic", "tanh"])
def test_activations_are_right_and_the_same_wherever_a_value_stands(name: str) -> None:
    function = getattr(blockmath, name)
    values = np.concatenate([np.random.default_rng(0).normal(0, 8, 1001), [0.0, -0.0, 1e-9, -1e-9, 900.0, -900.0]])
    right = [math.tanh(v) if name == "tanh" else 1 / (1 + math.exp(min(-v, 709))) for v in values]
    found = function(values)
    np.testing.assert_allclose(found, right, rtol=0, atol=5e-16)
    for start in range(1, 9):
        assert function(values[start:]).tobytes() == found[start:].tobytes()
    assert function(values[:1004].reshape(4, 251)).tobytes() == found[:1004].tobytes()
    assert np.isnan(function(np.array([np.nan, 1.0]))).tolist() == [True, False]
    assert function(np.zeros((0, 3))).shape == (0, 3)
