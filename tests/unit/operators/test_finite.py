"""Numbers that are not finite are found in a model, and named."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.codec.errors import JobFailed
from riprap.codec.ids import Epoch
from riprap.operators.finite import are_finite, check_model


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_number_that_is_not_finite_is_found(bad: float, dtype: type) -> None:
    large = np.full(1000, np.finfo(dtype).max, dtype)
    assert are_finite([large, np.zeros(0), np.array(["words"]), np.arange(3)])
    for place in (0, 500, 999):
        array = large.copy()
        array[place] = bad
        assert not are_finite([np.zeros(3), array])


def test_the_arrays_and_how_much_of_them_are_named() -> None:
    model = {"coefficients": np.array([1.0, np.nan, np.inf]), "intercept": np.zeros(1), "n": np.array([3])}
    with pytest.raises(JobFailed, match="model of epoch 7 is not finite: 2 of 3 coefficients are NaN or infinite"):
        check_model(Epoch(7), model)
    check_model(Epoch(7), {"coefficients": np.zeros(3)})
