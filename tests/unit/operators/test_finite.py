"""A model that is not finite fails its job, unless the user takes NaN and infinity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from task_parts import Listing, SinkBench

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


class Diverging(Listing):
    """Its model is the sum of all results."""

    def commit(self, epoch: int) -> Sequence[np.ndarray]:
        return list(self.model().values())

    def model(self) -> dict[str, np.ndarray]:
        return {"sum": np.array([sum(self.seen)])}


@pytest.mark.parametrize("must_be_finite", [True, False])
def test_a_sink_fails_at_the_epoch_whose_model_is_not_finite_unless_that_is_allowed(must_be_finite: bool) -> None:
    bench = SinkBench(operator=Diverging(), must_be_finite=must_be_finite)
    bench.begin()
    bench.window(1, 1, 2.0)
    if must_be_finite:
        with pytest.raises(JobFailed, match="model of epoch 2 is not finite: 1 of 1 sum are"):
            bench.window(2, 2, np.inf)
        assert [boundary.epoch for boundary in bench.committed] == [1] and bench.task.epoch == 1
        assert [model for _, model in bench.models()] == [0.0, 2.0], "no processor hears of it"
    else:
        bench.window(2, 2, np.inf)
        assert [boundary.epoch for boundary in bench.committed] == [1, 2]
        assert bench.models()[-1] == (2, np.inf)
