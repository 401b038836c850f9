"""Prequential averages."""

from __future__ import annotations

import numpy as np
import pytest

from riprap.operators.learning.metrics import Prequential


def test_averages_are_per_item_and_the_fading_ones_forget() -> None:
    metrics = Prequential(("loss", "accuracy"), fading=0.5)
    metrics.update(np.array([10.0, 20.0, 10.0]))
    metrics.update(np.array([30.0, 0.0, 0.0]))
    assert metrics.items == 40
    assert metrics.as_dict() == {
        "loss": 0.5,
        "accuracy": 0.25,
        "recent_loss": pytest.approx(10 / 35),
        "recent_accuracy": pytest.approx(5 / 35),
    }


@pytest.mark.parametrize(("fading", "recent"), [(0.0, 1.0), (1.0, 2.0)])
def test_limits_of_fading(fading: float, recent: float) -> None:
    metrics = Prequential(("loss",), fading)
    for loss in (3.0, 1.0):
        metrics.update(np.array([1.0, loss]))
    assert metrics.as_dict()["recent_loss"] == recent


def test_an_epoch_without_items_changes_nothing() -> None:
    metrics = Prequential(("loss",), 0.5)
    metrics.update(np.zeros(2))
    assert metrics.as_dict() == {}
    metrics.update(np.array([1.0, 3.0]))
    metrics.update(np.zeros(2))
    assert metrics.as_dict() == {"loss": 3.0, "recent_loss": 3.0}
