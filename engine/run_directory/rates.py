"""`rates.json`: the items that each link of a job has carried, as a rates file of `riprap plan`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from riprap.codec.files import replace
from riprap.codec.ids import WorkerId
from riprap.codec.json_text import to_json
from riprap.configs.shape import StageEdge
from riprap.configs.topology import Topology
from riprap.engine.worker.carried_file import CARRIED, LinkItems, read_carried

RATES = "rates.json"


def gather_rates(run_dir: Path, topology: Topology) -> None:
    """Write rates.json of a job whose workers have ended, and remove what they have left for it; OSError.

    An edge is left out where not every receiving task has told its links: it was killed, or the edge is coded, and
    its pieces are no items of a link. Without any edge there is no file, and one of an earlier attempt stays.
    """
    told = {task: read_carried(run_dir, task) for stage in topology.stages for task in topology.tasks(stage)}
    found = {edge.name: matrix for edge in topology.shape.data_edges if (matrix := _matrix(edge, topology, told))}
    if found:
        replace(run_dir / RATES, to_json({"links": found}) + "\n")
    shutil.rmtree(run_dir / CARRIED, ignore_errors=True)


def _matrix(edge: StageEdge, topology: Topology, told: Mapping[WorkerId, list[LinkItems] | None]) -> list[list[int]]:
    """By sending and receiving task, the items of an edge; empty where some are not known."""
    senders, columns = range(topology.stages[edge.upstream].parallelism), []
    for task in topology.tasks(edge.downstream):
        links = {link.sender: link.items for link in told[task] or () if link.edge == edge.index}
        if not links or not links.keys() <= set(senders):
            return []
        columns.append([links.get(sender, 0) for sender in senders])
    return [list(row) for row in zip(*columns)]
