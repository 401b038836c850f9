"""The names of operators: import paths in full, short ones of those that are shipped, and old ones.

A user's own module always comes before a shipped one of its name.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

HOME = "riprap.operators."
FAMILIES = ("inputs", "learning", "iteration", "text", "packets", "joins", "graphs", "panes", "outputs")
"""The folders below the home in which operators lie."""
FACADE, OLD_HOME, OLD_FAMILY = "riprap.", "operators.", "dataflow."
"""Former paths: `operators.svm`, `operators.dataflow.grep`, and `riprap.` before both."""


def full_name(path: str) -> str:
    """The import path that workers use: `svm:Model` is `riprap.operators.learning.svm:Model`, unless there is a module
    `svm`. A former path of a shipped operator is its present one."""
    module, colon, name = path.partition(":")
    short = module.removeprefix(FACADE).removeprefix(OLD_HOME).removeprefix(OLD_FAMILY)
    shipped = _shipped(short) if colon else None
    if not shipped or (short != module and OLD_HOME not in module):
        return path
    return path if not module.startswith(HOME) and _is_own(module) else f"{shipped}:{name}"


def newer_name(path: str) -> str | None:
    """The name to write in place of a shipped operator's former import path; None if the path is not one."""
    full = full_name(path)
    return short_name(full) if path.startswith((OLD_HOME, HOME)) and full != path else None


def short_name(path: str) -> str:
    """A shipped operator's name without its home; any other path as it is."""
    if not path.startswith(HOME):
        return path
    module, _, name = path.partition(":")
    return f"{module.rpartition('.')[2]}:{name}"


@cache
def _shipped(short: str) -> str | None:
    """The module in full that a short name stands for."""
    folder = Path(__file__).parent
    for family in FAMILIES:
        if short.isidentifier() and (folder / family / f"{short}.py").exists():
            return f"{HOME}{family}.{short}"
    return None


def _is_own(module: str) -> bool:
    """True when a module of the user's has this name: in the current directory, beside the script, or installed.

    In a checkout of the engine, the folder `operators` is no package of the user's. Nothing is imported.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    first, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except ValueError:  # of a module that was made in memory
        return True
    for name in rest:
        folders = spec.submodule_search_locations if spec is not None else None
        spec = PathFinder.find_spec(name, folders) if folders is not None else None
    return spec is not None and not str(spec.origin or "").startswith(str(Path(__file__).resolve().parent))
