"""What every shipped operator says of itself: a sentence, a type and bounds for each option, a sentence a metric."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from test_operators import BASES, PAIRS, Pair, trained

import riprap.operators
from riprap.codec.errors import ConfigError
from riprap.operators.adapters.stages import ProcessorStage, SinkStage, SourceStage
from riprap.operators.base import Operator
from riprap.operators.catalogue import describe
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.graphs.graph_loop import GraphLoop
from riprap.operators.graphs.vertex_values import VertexValues
from riprap.operators.iteration.asynchronous import AsynchronousLoop
from riprap.operators.iteration.keyed_loop import KeyedLoop
from riprap.operators.iteration.loop import Loop
from riprap.operators.iteration.nested import NestedIteration
from riprap.operators.iteration.supersteps import Iteration
from riprap.operators.loading import load_operator, make_operator
from riprap.operators.names import short_name
from riprap.operators.outputs.transactional import TransactionalSink
from riprap.operators.shipped import SHIPPED

NAMES = [name for names in SHIPPED.values() for name in names]
COMBINES = {"sum", "mean", "one for each task"}
REFUSED_ALONE = {"model", "models"}
"""Options of which one is needed and two are too many."""


def classes() -> Iterator[type[Operator]]:
    """All operators that are defined in the package."""
    for module in pkgutil.walk_packages(riprap.operators.__path__, "riprap.operators."):
        for _, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(value, Operator) and value.__module__ == module.name:
                yield value


def test_all_that_is_shipped_is_listed_once() -> None:
    bases = {*BASES, DataflowOperator, TransactionalSink, SourceStage, ProcessorStage, SinkStage}
    bases |= {Loop, Iteration, NestedIteration, AsynchronousLoop, KeyedLoop, VertexValues, GraphLoop}
    found = sorted(name_of(kind) for kind in set(classes()) - bases)
    assert found == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is(name: str) -> None:
    one = describe(name)
    assert one.name == name and len(one.summary) > 20 and not one.summary.endswith(".")
    assert f'operator: "{name}"' in one.example


@pytest.mark.parametrize("name", NAMES)
def test_each_option_has_a_sentence_a_type_and_bounds(name: str) -> None:
    for option in describe(name).options:
        where = f"{name}: {option.name}"
        assert option.option is not None, f"{where} has no Option in the signature"
        assert len(option.option.says) > 10 and not option.option.says.endswith("."), where
        assert option.type != "any value" or option.name == "model", where
        assert "number" not in option.type or option.option.low is not None, f"{where} has no bound"
        assert option.type != "whole number" or option.option.unit or option.name in ("label", "salt"), where
        assert option.is_required or option.admits(option.default), f"{where}: its default is refused"
        assert not option.is_required or option.option.example, f"{where} has no example"


@pytest.mark.parametrize("name", NAMES)
def test_the_constructor_refuses_what_the_signature_does(name: str) -> None:
    operator, described = load_operator(name), describe(name).options
    needed = {option.name: option.option.example for option in described if option.option and option.option.example}
    for option in described:
        assert option.option is not None
        if option.name in REFUSED_ALONE:
            continue
        too_low = [] if option.option.low is None else [option.option.low - 1]
        too_high = [] if option.option.high is None else [option.option.high + 1]
        of_another_type = {"text": "", "true or false": 1}.get(option.type, True)
        for wrong in (*too_low, *too_high, ["a list"], of_another_type):
            for make in (lambda given: operator(**given), lambda given: make_operator(name, given)):
                with pytest.raises(ConfigError, match=option.name):
                    make(needed | {option.name: wrong})


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_each_metric_of_a_sink_is_described(pair: Pair) -> None:
    _, sink = trained(pair)
    described = {metric.name for metric in describe(name_of(type(sink))).metrics}
    assert sink.metrics().keys() <= described and sink.combines.keys() <= described


def name_of(kind: type) -> str:
    return short_name(f"{kind.__module__}:{kind.__name__}")


@pytest.mark.parametrize("name", NAMES)
def test_each_metric_has_a_sentence_and_a_way_to_combine(name: str) -> None:
    for metric in describe(name).metrics:
        assert len(metric.says) > 10 and metric.combines in COMBINES


DATAFLOW = [name for name in NAMES if issubclass(load_operator(name), DataflowOperator)]


@pytest.mark.parametrize("name", DATAFLOW)
def test_each_metric_of_a_dataflow_operator_is_described(name: str) -> None:
    """By the source of `metrics`: the names stand there."""
    operator = load_operator(name)
    assert issubclass(operator, DataflowOperator)
    names = {metric.name for metric in describe(name).metrics}
    if operator.metrics is DataflowOperator.metrics:
        assert not names
        return
    source = inspect.getsource(operator.metrics)
    assert names and all(f'"{one}"' in source for one in names)
    assert operator.combines.keys() <= names
