"""Finds a user's function by its import path, `module:function`, for operators that take one as an option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.importing import import_named
from riprap.operators import by_value

EXAMPLE = "my_module:my_step"


def load_function(path: str) -> Callable[..., Any]:
    """The function that `module:function` names: of a module of the user's, from the current directory or PYTHONPATH,
    or of `__main__`, the notebook or script that runs the job (operators/by_value.py).

    ConfigError says which part of the path is wrong.
    """
    module_name, _, name = path.partition(":")
    if module_name == by_value.MAIN:
        found = by_value.find(name, "function")
    else:
        found = import_named("function", path, EXAMPLE)[1]
    if found is None:
        raise ConfigError(f"function {path!r}: {module_name} has no {name}", "Correct the name, or define it there.")
    if not callable(found) or isinstance(found, type):
        raise ConfigError(f"function {path!r}: {name} is no function", "Name one that is defined with `def`.")
    function: Callable[..., Any] = found
    return function
