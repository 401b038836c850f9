"""Finds an operator by its import path, `module:Class`, and makes one with its options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import ModuleType
from typing import Any

from riprap.codec.errors import ConfigError, RiprapError
from riprap.codec.importing import import_named, own_line
from riprap.operators import by_value
from riprap.operators.base import Operator, Processor, Sink, Source
from riprap.operators.dataflow import DataflowOperator
from riprap.operators.names import full_name
from riprap.operators.options import Parameter, options_of, takes_any
from riprap.operators.shipped import near

EXAMPLE = "logistic_regression:Gradient, or my_module:MyOperator"


def load_operator(path: str) -> type[Operator]:
    """The class that `module:Class` names; the module is shipped (operators/names.py) or the user's own, from the
    current directory, or `__main__`, the notebook or script that runs the job (operators/by_value.py).

    ConfigError says which part of the path is wrong, and shows the user's own line when importing the module raised.
    """
    module_name, _, class_name = path.partition(":")
    if module_name == by_value.MAIN:
        module, found = ModuleType(module_name), by_value.find(class_name)
    else:
        module, found = _imported(path)
    if found is None:
        raise ConfigError(f"operator {path!r}: {module_name} has no {class_name}", _offer(module))
    if not inspect.isclass(found) or not issubclass(found, (Source, Processor, Sink, DataflowOperator)):
        raise ConfigError(
            f"operator {path!r}: {class_name} is not a Source, Processor, Sink or DataflowOperator",
            "Let the class inherit from riprap.Source, riprap.Processor, riprap.Sink or riprap.DataflowOperator.",
        )
    if issubclass(found, DataflowOperator) and hasattr(found, "start"):
        raise ConfigError(
            f"operator {path!r}: {class_name} defines start(place), which is open(context) now",
            "Rename the method; the context has all that the place had.",
        )
    return found


def _imported(path: str) -> tuple[ModuleType, Any]:
    """The module of an import path, and what it has there; an error suggests the name that was perhaps meant."""
    try:
        return import_named("operator", full_name(path), EXAMPLE)
    except ConfigError as error:
        if close := near(path):
            error.remedy = f"Did you mean {close}? {error.remedy}"
        raise


@dataclass(frozen=True)
class OptionProblem:
    """One option of a stage that its operator does not take as it stands: what is wrong, expected, and to be done."""

    name: str
    wrong: str
    expected: str
    fix: str = ""


def option_problems(operator: type[Operator], options: Mapping[str, Any]) -> Iterator[OptionProblem]:
    """All options that the operator does not know, lacks, or cannot have with these values."""
    known = options_of(operator)
    every = "; ".join(parameter.signature for parameter in known.values())
    for name, value in options.items():
        if name in known:
            if not known[name].admits(value):
                yield OptionProblem(name, f"is {value!r}", known[name].expected, _told("correct it", known[name]))
        elif not takes_any(operator):
            close = get_close_matches(name, known, n=1)
            fix = f"did you mean {close[0]}?" if close else "leave it out"
            yield OptionProblem(name, "unknown option", f"one of: {every}" if every else "no options", fix)
    for name, parameter in known.items():
        if parameter.is_required and name not in options:
            yield OptionProblem(name, "missing", parameter.expected, _told("add it", parameter))


def _told(remedy: str, parameter: Parameter) -> str:
    meaning = parameter.option
    return f"{remedy}: {meaning.says[0].lower()}{meaning.says[1:]}" if meaning else remedy


def make_operator(path: str, options: Mapping[str, Any]) -> Operator:
    """An operator with the options of its stage; ConfigError names all that are unknown, missing or wrong."""
    operator = load_operator(path)
    if found := list(option_problems(operator, options)):
        told = "; ".join(f"option {problem.name} {problem.wrong}, expected {problem.expected}" for problem in found)
        raise ConfigError(f"operator {path!r}: {told}", "; ".join(problem.fix for problem in found if problem.fix))
    try:
        return operator(**options)
    except RiprapError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"operator {path!r} refused its options: {own_line(error, __file__)}", "Correct the options."
        ) from error


def _offer(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Operator) and value.__module__ == module.__name__
    ]
    return f"It has {', '.join(names)}." if names else "It has no operators at all; check the module's name."
