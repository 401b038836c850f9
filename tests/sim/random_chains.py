"""Random chains of jobs: a random graph is copied at any moment, and another job goes on from its savepoint, with other
numbers of tasks, another scheme and other faults, and perhaps a third one from a savepoint of that."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataflow_simulator import DataflowCase, DataflowNode, run_or_replay
from random_graphs import EXACT, Drawn, Graph, drawn_topology, verdict
from random_panes import TimedDrawn, TimedGraph

from riprap.backupserver.savepoint import FORMAT, MANIFEST, read_savepoint
from riprap.codec.errors import JobFailed
from riprap.configs.topology import Topology
from riprap.controller.checkpoints import Coordinator, Marks
from riprap.engine.worker.from_savepoint import beginning_of

MAKERS = ("aligned", "local", "unaligned", "timeout", "stop_the_world", "optimistic")
"""Schemes of jobs that have savepoints, as random_graphs.py names them."""
ORDERED = ("local", "partially_active", "tentative")
"""Schemes under which no job begins from a savepoint that feeds back."""
RESTORING = tuple(name for name in EXACT if name != "replay")
"""Schemes under which a job may begin from a savepoint."""
JOBS_MAX = 3


class DrawnAgain(Drawn):
    """A later version of a job: another scheme and numbers of tasks for the same stages, edges and input."""

    def __init__(self, before: Drawn, number: int) -> None:
        self.seed, self.windows = before.seed, before.windows
        self.rng = random.Random(f"job {number} of {before.seed}")
        self.stages, self.edges = copy.deepcopy(before.stages), before.edges
        feeds_back = any(edge.get("feedback") for edge in self.edges)
        loops = any(edge.get("loop") for edge in self.edges)
        marks = any(stage["operator"].endswith("Marked") for stage in self.stages.values())
        cannot = {*(ORDERED if feeds_back else ()), *(("local", "tentative") if loops else ("optimistic",))}
        cannot |= {"upstream_backup"} if marks else set()
        self.name = self.rng.choice([name for name in RESTORING if name not in cannot])
        if self.name in ("partially_active", "tentative") and self.rng.random() < 0.5:
            self._replicate()

    def rescale(self) -> bool:
        """Give stages other numbers of tasks, where that may be; False where it may not be of any."""
        chosen = [name for name in self.stages if self._may_be_rescaled(name) and self.rng.random() < 0.7]
        for name in chosen:
            self.stages[name]["parallelism"] = tasks = self.rng.choice([1, 2, 3, 5])
            for edge in self.edges:
                if edge["to"] == name and "mode" in edge:
                    self._tell(edge["from"], name, tasks)
        return bool(chosen)

    def _may_be_rescaled(self, name: str) -> bool:
        """True where its tasks may be any number: its items, and its state if it has one, go by key."""
        into = [edge for edge in self.edges if edge["to"] == name and "mode" in edge]
        deals = [edge for edge in self.edges if edge["from"] == name and edge.get("mode") == "deal"]
        kind = self.stages[name]["operator"].partition(":")[2]
        modes = {"Pass": ("hash", "key"), "Summed": ("hash",), "Prepared": ("hash",), "Ended": ("hash",)}.get(kind, ())
        fixed = any(edge["partitioning"] != "stripe" for edge in deals)
        return bool(into) and not fixed and all(edge["mode"] in modes for edge in into)

    def _tell(self, one: str, to: str, tasks: int) -> None:
        """The number of tasks that a stage sends to."""
        options = self.stages[one]["options"]
        outs = [out.split(":") for out in options.get("outs", "").split(",") if out]
        if outs:
            changed = [(stage, mode, str(tasks) if stage == to else number) for stage, mode, number in outs]
            options["outs"] = ",".join(":".join(out) for out in changed)


class Chained(Graph):
    """A graph that may begin from a savepoint, and may be copied."""

    def __init__(
        self, drawn: Drawn, topology: Topology, case: DataflowCase, made: Path | None, wanted: Path | None
    ) -> None:
        self.made, self.wanted = made, wanted
        super().__init__(drawn, topology, case)
        if self.checkpointing is not None and made is not None:
            before = read_savepoint(made).checkpoint
            self.checkpointing.marks = marks = Marks(0, before)
            self.checkpointing.coordinator = Coordinator(self.checkpointing.coordinator.pace, marks, self.now)
        if wanted is not None:
            self.at(self.rng.uniform(0, 0.3), self.ask)

    def make_task(self, node: DataflowNode) -> Any:
        task = super().make_task(node)
        beginning = beginning_of(self.topology, self.layouts[node.me])
        if beginning is not None:
            task.begin_from(beginning)
        return task

    def ask(self) -> None:
        assert self.checkpointing is not None
        self.checkpointing.coordinator.want(str(self.wanted), True, self.now)
        self.at(0.05, self.ask)

    def run_to_savepoint(self) -> None:
        """Until one is durably decided; its manifest is written then."""
        checkpointing, steps = self.checkpointing, 0
        assert checkpointing is not None
        assert self.wanted is not None
        while checkpointing.marks.completed not in checkpointing.savepoints:
            self.step()
            steps += 1
            assert steps < 400_000, f"no savepoint was whole\n{self.standing()}"
        fields = {"format": FORMAT, "job": "job", "checkpoint": checkpointing.marks.completed}
        (self.wanted / MANIFEST).write_text(json.dumps(fields | {"topology": self._whole.to_dict()}) + "\n")
        for node in self.nodes.values():
            node.task.close()


class TimedChained(Chained, TimedGraph):
    """The same by event time."""


def chain(seed: int, scheme: str, directory: Path, file: str, timed: bool = False) -> list[str]:
    """Jobs one after another, the first under a scheme; AssertionError where the last comes to something else than the
    plain model. What each was: its scheme, its numbers of tasks. Empty for a graph that is refused."""
    drawn, kind = (TimedDrawn(seed, (scheme,)), TimedChained) if timed else (Drawn(seed, (scheme,)), Chained)
    topology, _ = drawn_topology(drawn)
    if topology is None:
        return []
    jobs, told = drawn.rng.choice([2, 2, JOBS_MAX]), []
    made: Path | None = None
    for number in range(1, jobs + 1):
        wanted = directory / str(number) if number < jobs and drawn.name in MAKERS else None
        simulation = kind(drawn, topology, drawn.case(), made, wanted)
        simulation.case.log.append(" ".join(told))
        told.append(f"{drawn.name} {[stage.parallelism for stage in topology.stages.values()]}")
        if wanted is None:
            break
        try:
            simulation.run_to_savepoint()
        except Exception as error:
            tail = "\n".join(simulation.case.log[-30:])
            raise AssertionError(f"seed {seed}: {told}: {error!r}\n{tail}") from error
        made = wanted
        drawn, topology = next_job(drawn, number + 1, made)
    run_or_replay(simulation, file, scheme)
    assert not (wrong := verdict(simulation)), f"seed {seed}: {told}: {wrong}"
    return told


def next_job(before: Drawn, number: int, made: Path) -> tuple[Drawn, Topology]:
    """The job that goes on, rescaled where the savepoint can be dealt out so."""
    for rescaled in (True, False):
        drawn = DrawnAgain(before, number)
        if rescaled and not drawn.rescale():
            continue
        topology, problems = drawn_topology(drawn, made)
        assert topology is not None, f"seed {before.seed}: {drawn.name}: {problems}"
        try:
            Chained(drawn, topology, replace(drawn.case(), kills=0), made, None)
        except JobFailed as error:
            may_be = "on their way", "a key twice" if number > 2 else "on their way"  # states that go by other keys
            assert rescaled and any(why in str(error) for why in may_be), f"seed {before.seed}: {error}"
            continue
        return drawn, topology
    raise AssertionError(f"seed {before.seed}: its own number of tasks was refused")
