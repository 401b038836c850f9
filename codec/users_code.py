"""Tells the user's code from the engine's and from what is installed, by the file that a frame names."""

from __future__ import annotations

import sysconfig
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_ENGINE = tuple(f"{_ROOT / folder}/" for folder in ("engine", "controller", "codec", "backupserver"))
_OURS = (*_ENGINE, *(f"{_ROOT / folder}/" for folder in ("configs", "operators", "prep_spark", "riprap")))
_PYTHON = f"{sysconfig.get_path('stdlib')}/"
_PACKAGES = ("/site-packages/", "/dist-packages/")


def is_installed(file: str) -> bool:
    """True of a file of an installed package, which may hold operators too."""
    return any(part in file for part in _PACKAGES)


def is_below_engine(file: str) -> bool:
    """True of code that is neither the engine's nor Python's own: operators, and what they call."""
    return not file.startswith(("<", *_ENGINE)) and (is_installed(file) or not file.startswith(_PYTHON))


def is_users(file: str) -> bool:
    """True of code that is neither ours, nor installed, nor Python's own."""
    return is_below_engine(file) and not is_installed(file) and not file.startswith(_OURS)
