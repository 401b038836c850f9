"""Operators that are defined in a notebook or script: their classes reach the workers by a file, pickled by value, and
so do functions that options name.

A program that starts a job writes its classes with `write`, into a folder of its own. The launcher keeps the file in
the run directory, so that the job can be resumed, and names it to its workers by an environment variable; they load
what an operator `__main__:CLASS` means from it.

Nothing from the network is ever unpickled: the file is opened by its path on this host, and only if it and its folder
belong to the user who reads it and nobody else may open them. No message names it.
"""

from __future__ import annotations

import importlib
import linecache
import os
import pickle
import stat
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from riprap.codec.errors import ConfigError

MAIN = "__main__"
ENVIRONMENT = "RIPRAP_CLASSES"
"""Names the file to the launcher's children."""
KINDS = {"operator": "class", "function": "function"}
FOLDER, FILE = "classes", "classes.pickle"
SAVE = (
    "save the class or function into a module (in a notebook: begin its cell with `%%writefile my_operators.py`),"
    " import it from there, and name it my_operators:CLASS"
)


def find(name: str, role: str = "operator") -> Any:
    """The class of an `operator`, or the `function`, that `__main__:NAME` means here: in the file that the launcher
    named, else in the program itself.

    ConfigError when there is no such class or function.
    """
    file = os.environ.get(ENVIRONMENT)
    found = _read(file).get(name) if file else getattr(sys.modules[MAIN], name, None)
    if found is None:
        raise ConfigError(
            f"{role} '{MAIN}:{name}': the {KINDS[role]} of a notebook or script is known only to the jobs that this"
            " starts",
            SAVE,
        )
    return found


def write(folder: Path, classes: Mapping[str, type | FunctionType]) -> Path:
    """Pickle classes and functions by value into a new file in `folder`, which is the user's alone; its path.

    ConfigError when cloudpickle is not installed, or a class refers to what cannot be pickled.
    """
    cloudpickle = _cloudpickle()
    try:
        data = cloudpickle.dumps({"classes": dict(classes), "sources": _sources(classes.values())})
    except Exception as error:  # whatever the classes refer to says what it likes
        raise ConfigError(
            f"{', '.join(classes)} cannot be sent to workers: {error}",
            "make what they refer to in `open`, on the worker, or " + SAVE,
        ) from error
    return _write(folder / FILE, data)


def use(file: str | None) -> None:
    """Have this process and its children find classes in that file; None: in none."""
    os.environ.pop(ENVIRONMENT, None)
    if file:
        os.environ[ENVIRONMENT] = file


def keep(run_dir: Path) -> None:
    """Move the file in use, if any, into a run directory, and use it there."""
    file = os.environ.get(ENVIRONMENT)
    if file:
        folder = run_dir / FOLDER
        folder.mkdir(mode=0o700)
        use(str(_write(folder / FILE, _bytes(file))))


def use_kept(run_dir: Path) -> None:
    """Use what `keep` left in a run directory, if anything."""
    file = run_dir / FOLDER / FILE
    use(str(file) if file.exists() else None)


def _write(path: Path, data: bytes) -> Path:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
        stream.write(data)
    return path


def _bytes(file: str) -> bytes:
    """The content of a file that nobody but this user can have written; ConfigError for any other."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
            _check_own(file, os.fstat(stream.fileno()))
            _check_own(os.path.dirname(file), os.stat(os.path.dirname(file)))
            return stream.read()
    except OSError as error:
        raise ConfigError(f"the classes of a notebook in {file}: {error.strerror}", "start the job again") from error


def _check_own(path: str, status: os.stat_result) -> None:
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        found = f"owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}"
        raise ConfigError(
            f"{path} is not loaded: it must belong to user {os.getuid()}, with no rights for others; it has {found}",
            "start the job again from its notebook or script; never load such a file of somebody else's",
        )


@cache
def _read(file: str) -> dict[str, Any]:
    _cloudpickle()
    try:
        found = pickle.loads(_bytes(file))  # noqa: S301 - a file of this user that nobody else may open
    except (pickle.UnpicklingError, ImportError, AttributeError, EOFError) as error:
        raise ConfigError(f"{file} cannot be loaded: {error}", "start the job again") from error
    for name, lines in found["sources"].items():
        if not os.path.exists(name):  # a cell of a notebook: errors show its lines all the same
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    classes: dict[str, Any] = found["classes"]
    return classes


def _sources(classes: Any) -> dict[str, list[str]]:
    """The files that functions, and the classes' methods, stand in, with their lines."""
    members = (value for one in classes for value in (one, *vars(one).values()))
    functions = (value for value in members if isinstance(value, FunctionType))
    names = {function.__code__.co_filename for function in functions}
    return {name: lines for name in names if (lines := linecache.getlines(name))}


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "classes of a notebook or script need cloudpickle to reach the workers, and it is not installed",
            f"install it: pip install 'riprap[notebook]'; or {SAVE}",
        ) from error
