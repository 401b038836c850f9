"""`carried/TASK.json`: the items that each link into a task has carried, left by its worker when it is told to end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from riprap.codec.ids import WorkerId
from riprap.codec.json_text import to_json
from riprap.engine.flow.layout import Joint
from riprap.engine.flow.progress import Heard, TaskProgress, link_key

CARRIED = "carried"
"""The directory of these files in a run directory, until the job has ended and they are summed up."""


class LinkItems(NamedTuple):
    """The items of one link: the place of its edge in the topology, the index of the sending task, and their number
    in all attempts at the job."""

    edge: int
    sender: int
    items: int


def write_carried(run_dir: Path, me: WorkerId, inputs: Iterable[Joint], progress: TaskProgress) -> None:
    """Leave the items of all links into a task. A replica leaves nothing, for its primary counts the same.

    A file that finds no room is left out: the next plan of the job is all that lacks it.
    """
    if me.copy:
        return
    with suppress(OSError):
        (run_dir / CARRIED).mkdir(exist_ok=True)
        (run_dir / CARRIED / f"{me}.json").write_text(to_json({"links": carried(inputs, progress)}))


def carried(inputs: Iterable[Joint], progress: TaskProgress) -> list[LinkItems]:
    """The items so far of all links into a task."""
    return [
        LinkItems(joint.edge.index, worker.index, progress.done.get(link_key(joint.edge, worker), Heard()).at.items)
        for joint in inputs
        if not joint.feedback
        for worker in joint.workers
    ]


def read_carried(run_dir: Path, task: WorkerId) -> list[LinkItems] | None:
    """The links into a task; None where it has left no whole file, as one that was killed."""
    try:
        links = json.loads((run_dir / CARRIED / f"{task}.json").read_bytes())["links"]
        return [LinkItems(int(edge), int(sender), int(items)) for edge, sender, items in links]
    except (OSError, ValueError, KeyError, TypeError):
        return None
