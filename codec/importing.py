"""Finds what a topology names by import path, `module:Name`; the module may be the user's own."""

from __future__ import annotations

import importlib
import inspect
import linecache
import os
import sys
import traceback
from types import ModuleType
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.users_code import is_users


def import_named(what: str, path: str, example: str) -> tuple[ModuleType, Any]:
    """The module that `module:Name` names, and what it has by that name: None when there is nothing.

    `what` it is (`operator`, `code`) and an `example` of a path go into messages. ConfigError says which part of the
    path is wrong, and shows the user's own line when importing the module raised.
    """
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        article = "an" if what[0] in "aeiou" else "a"
        raise ConfigError(f"{path!r} is not {article} {what}'s import path", f"Write MODULE:CLASS, such as {example}.")
    module = _import(f"{what} {path!r}", module_name)
    return module, getattr(module, name, None)


def _import(what: str, module_name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that a user's file cannot hide one of the engine's modules
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{what}: importing {module_name} failed: {own_line(error)}",
                f"Install {error.name}, or put it beside the module.",
            ) from error
        raise ConfigError(
            f"{what}: there is no module {error.name}",
            "Check the spelling; the user's own modules are looked for in the current directory and on PYTHONPATH.",
        ) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{what}: importing {module_name} failed: {own_line(error)}", "Correct that line.") from error


def own_line(error: BaseException, *ours: str) -> str:
    """The error, with the innermost line of the user's own code that led to it; lines of the files `ours` are not."""
    what = "".join(traceback.format_exception_only(error)[-1:]).strip()
    if isinstance(error, SyntaxError):
        return f"{what}\n  {error.filename}:{error.lineno}: {(error.text or '').strip()}"
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in ours and _is_own(f.filename)]
    if not own:
        return what
    frame = next((f for f in reversed(own) if is_users(f.filename)), own[-1])
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{what}\n  {frame.filename}:{frame.lineno}: {line}"


def _is_own(filename: str) -> bool:
    """True when a frame is neither Python's machinery of imports nor ours."""
    return not filename.startswith("<") and filename not in (__file__, importlib.__file__, inspect.__file__)
