"""A sink's last words, in the run directory: the content of its `done`, in case its agent cannot pass that on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from riprap.codec.files import replace
from riprap.codec.ids import Incarnation, WorkerId
from riprap.codec.json_text import to_json
from riprap.controller.completeness import Account

NAME = "done.{}.json"


class LastWords(NamedTuple):
    """The words of one incarnation of a sink, once all that it committed is durable and its outputs are written."""

    worker: WorkerId
    incarnation: Incarnation
    account: Account
    stats: dict[str, Any]


ReadLastWords = Callable[[str, WorkerId], LastWords | None]
"""The last words of a sink in a run directory; None while there are none."""


def write_last_words(run_dir: Path, worker: str, incarnation: int, said: Mapping[str, Any]) -> None:
    """Leave the content of a sink's `done` (`epoch`, `accounted`, `stats`), in one step; OSError."""
    replace(run_dir / NAME.format(worker), to_json({"incarnation": incarnation, **said}))


def read_last_words(run_dir: str, worker: WorkerId) -> LastWords | None:
    """As ReadLastWords says; a file that holds anything else says nothing."""
    try:
        said = json.loads(Path(run_dir, NAME.format(worker)).read_bytes())
        account = Account(int(said["epoch"]), int(said["accounted"]))
        return LastWords(worker, Incarnation(int(said["incarnation"])), account, dict(said["stats"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def nothing_said(run_dir: str, worker: WorkerId) -> None:
    """For controllers that share no file system with their workers."""
