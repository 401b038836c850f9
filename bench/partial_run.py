"""Runs a job of DataflowOperators of which only some tasks are alive, in this process; counts what each link carries.

The others are dead from the first window on, as those without a replica are after the worst of failures. Who is alive
computes as its worker would; event time reaches a stage a window later than there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riprap.configs.topology import Topology
from riprap.engine.run.kinds.dataflow_trial import graph_of
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states.checks import keys_at
from riprap.operators.trial.graph import Graph, TrialTask

Lines = tuple[np.ndarray, np.ndarray]
"""Lines of text: bytes (uint8), and count + 1 offsets (int64)."""
Members = Callable[[int, Sequence[np.ndarray]], Iterator[tuple[int, Any]]]
"""The members of the sets that a file means, each with its set's number; of the window, and the file's arrays."""
Link = tuple[str, int, str, int]
"""The sending stage and task, "" and 0 for the input, and the receiving ones."""


class Dead(DataflowOperator):
    """A task that has failed: whatever comes, it puts nothing out."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        return items.count


@dataclass
class Played:
    """A run: the sets that its output means, and the items of each link."""

    sets: dict[int, set[Any]] = field(default_factory=lambda: defaultdict(set))
    items: dict[Link, int] = field(default_factory=lambda: defaultdict(int))

    def matrix(self, upstream: str, senders: int, downstream: str, receivers: int) -> np.ndarray:
        """The items of an edge: a row for each sending task, a column for each receiving one."""
        found = np.zeros((senders, receivers))
        for (stage, task, other, place), items in self.items.items():
            if (stage, other) == (upstream, downstream):
                found[task, place] = items
        return found

    def arrived(self, stages: Collection[str]) -> int:
        """The items that came to these stages."""
        return sum(items for (_, _, stage, _), items in self.items.items() if stage in stages)

    def note(self, task: TrialTask, members: Members) -> None:
        """Count a task's calls, and forget them."""
        for call in task.calls:
            if isinstance(call.given, Items):
                self.items[call.given.stage, call.given.task, task.stage, task.context.index] += call.given.count
            window = call.given.epoch if isinstance(call.given, Items) else call.given
            for message in call.sent:
                if message.way == "write":
                    for number, member in members(window, message.arrays):
                        self.sets[number].add(member)
        task.calls.clear()


def play(
    topology: Topology, windows: Mapping[str, Sequence[Lines]], members: Members, alive: Collection[str] | None = None
) -> Played:
    """Run all windows of each source's input, dealt out to its tasks line by line; `alive` are worker ids, None: all.

    The input of a dead task is gone.
    """
    graph, played = graph_of(topology), Played()
    tasks = [task for stage in graph.stages.values() for task in stage]
    for task in tasks:
        if alive is not None and f"{task.stage}.{task.context.index}" not in alive:
            task.operator = Dead()
    for lines in zip(*windows.values(), strict=True):
        for stage, some in zip(windows, lines, strict=True):
            _feed(graph, stage, some)
        _tell_time(graph)
        graph.close()
        for task in tasks:
            played.note(task, members)
    return played


def _feed(graph: Graph, stage: str, lines: Lines) -> None:
    count, tasks = len(lines[1]) - 1, len(graph.stages[stage])
    for index in range(tasks):
        mine = np.arange(index, count, tasks)
        if len(mine):
            data, offsets = keys_at(lines, mine)
            graph.feed(stage, index, (data, offsets), len(mine))


def _tell_time(graph: Graph) -> None:
    """Each task's event time: the least promise of the living tasks before it; who promises nothing passes it on."""
    promised: dict[str, int] = {}
    for name, tasks in graph.stages.items():
        heard = [promised[stage] for stage in tasks[0].context.upstream or {} if stage in promised]
        own = [task.out.promised for task in tasks if not isinstance(task.operator, Dead)]
        made = [at for at in own if at is not None] or (heard if own else [])
        if made:
            promised[name] = min(made)
        for task in tasks:
            task.out.event_time = min(heard, default=None)
