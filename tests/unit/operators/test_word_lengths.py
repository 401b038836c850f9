"""The example of the page of operators, as an operator like any other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from riprap.operators.base import Context

EXAMPLE = Path(__file__).parents[3] / "examples/word_lengths.py"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("word_lengths", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_restored_mean_goes_on(example: ModuleType) -> None:
    source = example.Words(words=240)
    source.open(Context())
    lengths, first, second = example.Lengths(), example.Mean(), example.Mean()
    first.aggregate(lengths.process_data(source.read(0, 100)))
    first.commit(1)
    snapshot = first.snapshot()
    second.restore(snapshot)
    for mean in (first, second):
        mean.aggregate(lengths.process_data(source.read(100, 240)))
        assert mean.commit(2)[0].tolist() == [240 * 6.5, 240]
    assert second.is_restorable and second.metrics() == {"mean_length": 6.5}
    np.testing.assert_array_equal(snapshot["total"], [source.read(0, 100).sum(), 100])
