"""Finds an operator by its import path, `module:Class`, and makes one with its options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from codec.errors import ConfigError, RiprapError
from codec.importing import import_named, own_line
from operators.base import Operator, Processor, Sink, Source
from operators.dataflow.base import DataflowOperator

EXAMPLE = "operators.logistic_regression:Gradient"


def load_operator(path: str) -> type[Operator]:
    """The class that `module:Class` names; the module may be the user's own, from the current directory.

    ConfigError says which part of the path is wrong, and shows the user's own line when importing the module raised.
    """
    module, found = import_named("operator", path, EXAMPLE)
    module_name, _, class_name = path.partition(":")
    if found is None:
        raise ConfigError(f"operator {path!r}: {module_name} has no {class_name}", _offer(module))
    if not inspect.isclass(found) or not issubclass(found, (Source, Processor, Sink, DataflowOperator)):
        raise ConfigError(
            f"operator {path!r}: {class_name} is not a Source, Processor, Sink or DataflowOperator",
            "Let the class inherit from one of those in operators.base or operators.dataflow.base.",
        )
    return found


def make_operator(path: str, options: Mapping[str, Any]) -> Operator:
    """An operator with the options of its stage; ConfigError names the option that is unknown, missing or wrong."""
    operator = load_operator(path)
    accepted = _options_of(operator)
    unknown = [name for name in options if name not in accepted]
    if unknown:
        raise ConfigError(
            f"operator {path!r} has no option {', '.join(map(repr, unknown))}",
            f"Its options are {', '.join(accepted)}." if accepted else "It takes no options; leave them out.",
        )
    missing = [n for n, p in accepted.items() if p.default is p.empty and p.kind is p.KEYWORD_ONLY and n not in options]
    if missing:
        raise ConfigError(f"operator {path!r} needs the option {', '.join(map(repr, missing))}", "Add it to the stage.")
    try:
        return operator(**options)
    except RiprapError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"operator {path!r} refused its options: {own_line(error, __file__)}", "Correct the options."
        ) from error


def _options_of(operator: type[Operator]) -> Mapping[str, inspect.Parameter]:
    """The constructor's parameters. `inspect` would parse for 15 ms to find that `object` has none."""
    return {} if operator.__init__ is object.__init__ else inspect.signature(operator).parameters


def _offer(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Operator) and value.__module__ == module.__name__
    ]
    return f"It has {', '.join(names)}." if names else "It has no operators at all; check the module's name."
