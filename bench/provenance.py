"""The code that a result was measured on, and its differences from the code that stands here."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PRODUCT = ("codec", "configs", "operators", "backupserver", "controller", "engine", "prep_spark")
"""Folders of which a bench speaks unless it says otherwise."""


def provenance(speaks_of: Sequence[str] = PRODUCT) -> dict[str, Any]:
    """The commit, the files that differ from it, and git's name of the content of each folder spoken of."""
    trees = {folder: _git("rev-parse", "--short", f"HEAD:{folder}") for folder in speaks_of}
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *speaks_of)
    return {"commit": _git("rev-parse", "--short", "HEAD"), "dirty": bool(changed), "trees": trees}


def mark(measured: Mapping[str, Any] | None) -> str:
    """A note for a reader of a table about its age: nothing where the code is unchanged."""
    if not measured or not measured.get("commit"):
        return "measured on an older commit, which was not noted"
    changed = [
        folder for folder, tree in measured["trees"].items() if tree != _git("rev-parse", "--short", f"HEAD:{folder}")
    ]
    said = f"measured on commit {measured['commit']}"
    if measured["dirty"]:
        said += " with changes that it does not hold"
    return f"{said}; since then {', '.join(changed)} changed" if changed else said


def _git(*words: str) -> str:
    """The output of git; nothing where this is no checkout."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
