"""Finds an operator by its import path, `module:Class`, and makes one with its options."""

from __future__ import annotations

import importlib
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from codec.errors import ConfigError, RiprapError
from operators.base import Operator, Processor, Sink, Source
from operators.dataflow.base import DataflowOperator

_FORM = "Write MODULE:CLASS, for example operators.logistic_regression:Gradient."


def load_operator(path: str) -> type[Operator]:
    """The class that `module:Class` names; the module may be the user's own, from the current directory.

    ConfigError says which part of the path is wrong, and shows the user's own line when importing the module raised.
    """
    module_name, colon, class_name = path.partition(":")
    if not colon or not module_name or not class_name:
        raise ConfigError(f"{path!r} is not an operator's import path", _FORM)
    module = _import(path, module_name)
    found = getattr(module, class_name, None)
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
    except Exception as error:
        raise ConfigError(
            f"operator {path!r} refused its options: {_own_line(error)}", "Correct the options."
        ) from error


def _options_of(operator: type[Operator]) -> Mapping[str, inspect.Parameter]:
    """The constructor's parameters. `inspect` would parse for 15 ms to find that `object` has none."""
    return {} if operator.__init__ is object.__init__ else inspect.signature(operator).parameters


def _import(path: str, module_name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that a user's file cannot hide one of the engine's modules
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"operator {path!r}: importing {module_name} failed: {_own_line(error)}",
                f"Install {error.name}, or put it beside the module.",
            ) from error
        raise ConfigError(
            f"operator {path!r}: there is no module {error.name}",
            "Check the spelling; the user's own modules are looked for in the current directory and on PYTHONPATH.",
        ) from error
    except Exception as error:
        raise ConfigError(
            f"operator {path!r}: importing {module_name} failed: {_own_line(error)}", "Correct that line."
        ) from error


def _own_line(error: BaseException) -> str:
    """The error, with the innermost line of the user's own code that led to it."""
    what = "".join(traceback.format_exception_only(error)[-1:]).strip()
    if isinstance(error, SyntaxError):
        return f"{what}\n  {error.filename}:{error.lineno}: {(error.text or '').strip()}"
    own = [f for f in traceback.extract_tb(error.__traceback__) if _is_own(f.filename)]
    if not own:
        return what
    frame = own[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{what}\n  {frame.filename}:{frame.lineno}: {line}"


def _is_own(filename: str) -> bool:
    return not filename.startswith("<") and filename not in (__file__, importlib.__file__, inspect.__file__)


def _offer(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Operator) and value.__module__ == module.__name__
    ]
    return f"It has {', '.join(names)}." if names else "It has no operators at all; check the module's name."
