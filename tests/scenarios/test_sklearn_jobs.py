"""Estimators that train by a job: to the last bit what they train in one process."""

from __future__ import annotations

import numpy as np
import pytest
from cli_harness import Cli

import riprap

X = np.random.default_rng(3).standard_normal((3000, 3))
Y = X @ [1.0, -2.0, 0.5] > 0.1
ROWS = np.column_stack([Y.astype(float), X])


@pytest.fixture(autouse=True)
def marked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a test of this process starts bears the mark, and is looked for."""
    for name, value in cli.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(cli.directory)


@pytest.mark.parametrize(
    ("processors", "scheme", "unit", "micro_batch", "passes"),
    [(3, "erasure", 2, 20_000, 40), pytest.param(4, riprap.replication(copies=2), 2, 700, 4, marks=pytest.mark.long)],
    ids=["erasure, several blocks", "replication"],
)
def test_a_job_trains_what_this_process_trains_and_goes_on_with(
    cli: Cli, processors: int, scheme: str, unit: int, micro_batch: int, passes: int
) -> None:
    options = {"max_iter": passes, "micro_batch": micro_batch, "eta0": 0.5}
    model = riprap.RiprapSGDClassifier(processors=processors, scheme=scheme, **options).fit(X, Y)
    assert model.summary_["completed"] and model.summary_["items"] == 3000 * passes
    assert model._training.unit == unit, "or the sums would differ in the last bits"
    training = riprap.RiprapSGDClassifier(**options)._begin(ROWS, unit)
    training.feed(lambda start, stop: ROWS[np.arange(start, stop) % 3000], 3000 * passes)
    for _ in range(2):
        wanted = training.sink.model()
        assert np.array_equal(model.coef_[0], wanted["coefficients"])
        assert np.array_equal(model.intercept_, wanted["intercept"])
        model.partial_fit(X, Y)
        training.feed(lambda start, stop: ROWS[start:stop], 3000)
    cli.await_no_process()
