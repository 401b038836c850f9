"""What users import to try their operators: it passes what is sound, and tells of all that is not, in one error."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riprap.codec.errors import ConfigError
from riprap.operators.base import Arrays, Context, Processor, Sink
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.inputs.synthetic import Classification
from riprap.operators.joins.ripple_join import RippleJoin
from riprap.operators.learning import linear_regression, logistic_regression
from riprap.operators.learning.prediction import Predictions
from riprap.operators.states import HashMap
from riprap.testing import check_operator, check_processor, check_sink, check_source, check_topology, run

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = np.random.default_rng(4).standard_normal((120, 4))
CONTEXT = Context(("y", "a", "b", "c"), "y")


class Moody(Processor):
    """Breaks two laws."""

    calls = itertools.count()

    def process_data(self, items: np.ndarray) -> Arrays:
        self.last = items
        return [np.array([float(next(self.calls))])]

    def process_feedback(self, feedback: Arrays) -> None: ...


def test_shipped_operators_pass_as_classes_and_as_instances() -> None:
    check_source(Classification(items=500, features=3))
    check_processor(linear_regression.Gradient, ROWS, [[np.ones(5)]], CONTEXT)
    check_sink(linear_regression.Model(learning_rate=0.2), linear_regression.Gradient(), ROWS, CONTEXT)
    joins = [Items(1, stage, 0, 30, (np.arange(30) % 7,)) for stage in "abababab"]
    check_operator(RippleJoin, joins, Context(index=0, parallelism=1, upstream={"a": 1, "b": 1}, downstream={}))


def test_an_instance_is_left_as_it_was() -> None:
    model = linear_regression.Model(learning_rate=0.2)
    before = dict(vars(model))
    check_sink(model, linear_regression.Gradient, ROWS, CONTEXT)
    assert vars(model) == before


def test_one_error_lists_all_complaints() -> None:
    with pytest.raises(AssertionError, match=r"^2 complaints\n") as failed:
        check_processor(Moody, ROWS)
    text = str(failed.value)
    assert "- items are not kept: Moody.process_data kept" in text
    assert "- the same items give the same bits: Moody.process_data returned another result" in text
    assert text.count("remedy: ") == 2 and text.count(str(Path(__file__))) == 2


class Early(DataflowOperator):
    def __init__(self) -> None:
        self.state: HashMap = HashMap()

    def process_data(self, items: Items, first: int, out: Emitter) -> Any:
        out.send(items.arrays[0], items.count)


@pytest.mark.parametrize("block", [np.arange(20), (np.arange(20), np.zeros(3)), Items(1, "", 0, 20, (np.arange(20),))])
def test_an_operator_is_tried_on_blocks_of_any_form(block: Any) -> None:
    with pytest.raises(AssertionError, match=r"1 complaint\n.*out.send was given an array of int64"):
        check_operator(Early, [block] * 3)


class Ending(Sink):
    def aggregate(self, result: Arrays) -> None: ...
    def commit(self, epoch: int) -> Any:
        return ()

    def model(self) -> Any:
        return None


def test_a_sink_is_tried_behind_its_processor() -> None:
    with pytest.raises(AssertionError, match=r"Ending.model returned None; expected a dictionary of arrays"):
        check_sink(Ending, linear_regression.Gradient, ROWS, CONTEXT)


def test_a_run_gives_model_metrics_and_outputs() -> None:
    source = Classification(items=3000, features=4, informative=4, separation=2.0)
    trained = run(source, logistic_regression.Gradient, logistic_regression.Model(learning_rate=1.0), micro_batch=300)
    assert trained.metrics["accuracy"] > 0.9 and trained.outputs is None
    again = run(source, logistic_regression.Gradient, logistic_regression.Model(learning_rate=1.0), micro_batch=300)
    assert all(again.model[name].tobytes() == array.tobytes() for name, array in trained.model.items())
    from riprap.operators.learning.linear_prediction import LogisticRegression

    predicted = run(source, LogisticRegression(models=2), Predictions, items=100)
    assert predicted.outputs is not None and predicted.outputs.shape == (100, 2)


def test_what_an_operator_raises_in_a_run_is_raised() -> None:
    class Failing(linear_regression.Gradient):
        def process_data(self, items: np.ndarray) -> Any:
            raise LookupError("a user's mistake")

    with pytest.raises(LookupError, match="a user's mistake"):
        run(Classification(items=100), Failing, linear_regression.Model)


def test_topologies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    check_topology("word_lengths.yaml", items=300)
    with pytest.raises(ConfigError, match=r"options\.letters: unknown option"):
        check_topology("word_lengths.yaml", ["stages.source.options.letters=1"])


def test_the_example_of_the_operators_page_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (EXAMPLES.parent / "docs/operators.md").read_text()
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "check_processor(" in text]
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(EXAMPLES)
    names: dict[str, Any] = {}
    exec(example, names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    for test in tests:
        test()
    assert len(tests) == 3
