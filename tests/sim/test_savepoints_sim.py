"""Savepoints of simulated jobs, made at any moment and while workers die, from which other jobs begin: with other
numbers of tasks, under other schemes, and while their workers die."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataflow_jobs import BEHIND_FEEDBACK, KEYS, SHAPES
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, run_or_replay
from pairs import IS_WHOLE
from test_dataflow_sim import CASES as ALL_CASES
from test_dataflow_sim import EXACT, errors
from test_destination_replicas_sim import Copied

from riprap.backupserver.savepoint import FORMAT, MANIFEST, read_savepoint
from riprap.codec.blocks import Block
from riprap.codec.errors import JobFailed
from riprap.codec.ids import WorkerId
from riprap.engine.flow.task import Task
from riprap.engine.schemes.parts import copies
from riprap.engine.schemes.parts.chain import BEGINNING, Chain
from riprap.engine.worker.build import drop_what_is_left
from riprap.engine.worker.from_savepoint import beginning_of
from riprap.operators.base import Context
from riprap.operators.outputs.row_files import RowFiles
from riprap.operators.states import HashMap
from riprap.operators.states.vector import ArrayState

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
MORE = 8
"""Seeds beside these, until a savepoint held a window."""
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
LONG = {"items": 800, "windows": 20, "disk_s": 0.001}


class Saving(DataflowSimulation):
    """Asks for a savepoint at a random moment, again and again as its client would, and ends when it is whole."""

    def __init__(self, case: DataflowCase, seed: int, directory: Path) -> None:
        self.directory = directory
        super().__init__(case, seed)
        self.at(self.rng.uniform(0, 0.3), self.ask)

    def ask(self) -> None:
        assert self.checkpointing is not None
        self.checkpointing.coordinator.want(str(self.directory), True, self.now)
        self.at(0.05, self.ask)

    def run_to_savepoint(self) -> None:
        """Until one is durably decided; its manifest is written then."""
        checkpointing = self.checkpointing
        assert checkpointing is not None
        while checkpointing.marks.completed not in checkpointing.savepoints:
            self.step()
        fields = {"format": FORMAT, "job": "job", "checkpoint": checkpointing.marks.completed}
        (self.directory / MANIFEST).write_text(json.dumps(fields | {"topology": self.topology.to_dict()}) + "\n")
        for node in self.nodes.values():
            node.task.close()


class SavingAtTheEnd(Saving):
    """Asks once all windows are closed."""

    def ask(self) -> None:
        if all(self.nodes[sink].task.epoch == self.case.windows for sink in self.sinks):
            super().ask()
        else:
            self.at(0.05, self.ask)


class Begun(DataflowSimulation):
    """Begins from a savepoint."""

    def __init__(self, case: DataflowCase, seed: int, directory: Path) -> None:
        self.directory = directory
        super().__init__(case, seed)

    def make_task(self, node: DataflowNode) -> Task:
        task = super().make_task(node)
        beginning = beginning_of(replace(self.topology, start_from=str(self.directory)), self.layouts[node.me])
        assert beginning is not None
        task.begin_from(beginning)
        return task


def with_tasks(shape: str | Mapping[str, Any], tasks: Mapping[str, int]) -> dict[str, Any]:
    """A shape with other numbers of tasks."""
    whole = SHAPES[shape] if isinstance(shape, str) else shape
    stages = {
        name: stage | {"parallelism": tasks.get(name, stage["parallelism"])} for name, stage in whole["stages"].items()
    }
    return {**whole, "stages": stages}


MAKERS = {"aligned": EXACT["barrier"], "unaligned": EXACT["unaligned"], "stop_the_world": EXACT["stop_the_world"]}
CASES: list[tuple[str, dict[str, int]]] = [
    *((shape, {}) for shape in SHAPES if not shape.startswith(("coded", "copied"))),
    ("keyed", {"b": 5}),
    ("keyed", {"b": 1, "c": 4}),
    ("keyed", {"c": 1}),
    ("panes", {"b": 5}),
    ("panes", {"a": 2, "b": 1}),
]


IN_TURNS = [
    (maker, *case)
    for number, case in enumerate(CASES)
    for maker in (MAKERS if IS_WHOLE else [list(MAKERS)[number % len(MAKERS)]])
]
"""By default the schemes take turns, over all shapes; `make sim` runs all combinations."""


@pytest.mark.parametrize(
    ("maker", "shape", "tasks"),
    IN_TURNS,
    ids=lambda value: value if isinstance(value, str) else str(sorted(value.items())),
)
def test_another_job_goes_on_from_a_savepoint(maker: str, shape: str, tasks: dict[str, int], tmp_path: Path) -> None:
    schemes = [name for name, taken in ALL_CASES if taken == shape]
    begun_behind = 0
    for seed in range(FIRST, FIRST + SEEDS + MORE):
        if seed >= FIRST + SEEDS and begun_behind:
            break
        scheme = schemes[(seed + CASES.index((shape, tasks))) % len(schemes)]
        begun_behind += go_on(maker, scheme, shape, tasks, seed, tmp_path / str(seed))
    assert begun_behind, "no savepoint held a window: the case says nothing"


KILLS = {"kills": 4, "kill_until_s": 0.3}


def go_on(
    maker: str, scheme: str, shape: str | Mapping[str, Any], tasks: Mapping[str, int], seed: int, directory: Path,
    faults: Mapping[str, Any] = KILLS,
) -> bool:  # fmt: skip
    """A job is copied, and another goes on from that to the right end; True when there was a window before that."""
    made = Saving(DataflowCase(MAKERS[maker], shape, **LONG, kills=3, kill_until_s=0.3, log=[]), seed, directory)
    made.run_to_savepoint()
    whole = read_savepoint(directory)
    whole.check()
    case = DataflowCase(EXACT[scheme], with_tasks(shape, tasks), **LONG, **faults, log=[])
    simulation = Begun(case, seed, directory)
    run_or_replay(simulation, __file__, f"{maker} and {shape}")
    assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
    for sink, announced in simulation.announced.items():
        assert [window for window, _ in announced] == list(range(1, case.windows + 1)), f"seed {seed}: {sink}"
    assert sum(items for ends in simulation.announced.values() for _, items in ends) == simulation.items
    return bool(whole.fields(next(iter(simulation.nodes)))["progress"]["epoch"] > 0)


@pytest.mark.parametrize("scheme", ["mini_batch", "upstream_backup", "barrier"])
def test_what_waits_for_feedback_waits_in_each_incarnation(scheme: str, tmp_path: Path) -> None:
    for seed in range(FIRST, FIRST + SEEDS + MORE):
        faults = {"kills": 3, "kill_until_s": 0.15, "faulty": ("a",)}
        go_on("aligned", scheme, BEHIND_FEEDBACK, {}, seed, tmp_path / str(seed), faults)


@pytest.mark.parametrize("scheme", ["mini_batch", "upstream_backup", "barrier", "partially_active"])
def test_a_job_that_begins_behind_the_last_window_ends(scheme: str, tmp_path: Path) -> None:
    short = {"items": 16, "windows": 2, "disk_s": 0.001}
    SavingAtTheEnd(DataflowCase(MAKERS["aligned"], "windows", **short, log=[]), FIRST, tmp_path).run_to_savepoint()
    simulation = Begun(DataflowCase(EXACT[scheme], "windows", **short, log=[]), FIRST, tmp_path)
    run_or_replay(simulation, __file__, f"behind_the_last_window and {scheme}")
    assert not errors(simulation).any()


@pytest.mark.parametrize("scheme", ["local", "barrier", "mini_batch"])
def test_windows_that_were_closed_before_a_rollback_are_ended_again(scheme: str, tmp_path: Path) -> None:
    """A savepoint of a job that counts items at least once: some tasks have closed what those before them have not."""
    ahead = 0
    short = {"items": 400, "windows": 10, "disk_s": 0.001}
    for seed in range(FIRST, FIRST + SEEDS + 5):
        directory = tmp_path / str(seed)
        repeats = EXACT["barrier"] | {"guarantee": "at_least_once"}
        made = Saving(DataflowCase(repeats, "full", **short, kills=6, kill_until_s=0.3, log=[]), seed, directory)
        made.run_to_savepoint()
        epochs = [int(read_savepoint(directory).fields(worker)["progress"]["epoch"]) for worker in made.nodes]
        ahead += max(epochs[2:]) > min(epochs[:2])
        simulation = Begun(DataflowCase(EXACT[scheme], "full", **short, **KILLS, log=[]), seed, directory)
        run_or_replay(simulation, __file__, "ended_again")
        assert (errors(simulation) >= 0).all(), f"seed {seed}: {errors(simulation)}"
        for sink, announced in simulation.announced.items():
            assert [window for window, _ in announced] == list(range(1, 11)), f"seed {seed}: {sink}"
    assert ahead, "nobody was ahead of those before it: the case says nothing"


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_transactions_are_committed_by_the_tasks_that_drop_what_is_left(tasks: int, tmp_path: Path) -> None:
    """Of a destination that gets another number of tasks. A task that dies before the first checkpoint of the new job
    drops all that is prepared in its name, whether the others have begun by then or not."""
    rows, saved = tmp_path / "rows", tmp_path / "saved"
    sink = {"operator": "row_files:RowFiles", "parallelism": 2, "options": {"directory": str(rows)}}
    shape = {**SHAPES["full"], "stages": SHAPES["full"]["stages"] | {"b": sink}}
    Saving(DataflowCase(MAKERS["aligned"], shape, **LONG, log=[]), FIRST, saved).run_to_savepoint()
    whole = read_savepoint(saved)
    for index in range(2):
        (rows / ".staging" / f"part-{index:05d}-open").touch()  # of what came behind the savepoint
    names = [name for index in range(2) for _, name in whole.part(WorkerId("b", index)).meta["names"]]
    assert len({name.rpartition("-")[0] for name in names}) == 2, "both tasks have prepared something"
    case = DataflowCase(MAKERS["aligned"], with_tasks(shape, {"b": tasks}), **LONG, log=[])
    simulation = DataflowSimulation(case, FIRST)
    topology = replace(simulation.topology, start_from=str(saved))
    for index in reversed(range(tasks)):
        beginning = beginning_of(topology, simulation.layouts[WorkerId("b", index)])
        assert beginning is not None
        operator = RowFiles(str(rows))
        operator.open(Context(index=index))
        for name in beginning.names:
            operator.commit(name)
        operator.abort([])
        drop_what_is_left(topology, beginning.gone)
    assert {*names} <= {path.name for path in rows.glob("part-*")}
    assert not list((rows / ".staging").iterdir()), "and nothing is left of tasks that are no more"


class BegunWithReplicas(Begun, Copied):
    """The same, where destinations have replicas too."""

    def totals(self) -> np.ndarray:
        return sum(self.nodes[sink].task.operator.state.get(np.arange(KEYS)) for sink in self.sinks if not sink.copy)


@pytest.mark.parametrize("tasks", [{}, {"b": 5, "c": 3}], ids=["as it was", "rescaled"])
def test_replicas_begin_from_the_part_of_their_task(tasks: dict[str, int], tmp_path: Path) -> None:
    short, begun_behind = LONG | {"items": 240, "windows": 8}, 0
    for seed in range(FIRST, FIRST + SEEDS + 1):
        directory = tmp_path / str(seed)
        Saving(DataflowCase(MAKERS["aligned"], "keyed", **short, log=[]), seed, directory).run_to_savepoint()
        scheme = EXACT["partially_active"] | {"replicate": ["a.0", "b", "c.1"]}
        case = DataflowCase(scheme, with_tasks("keyed", tasks), **short, **KILLS, log=[])
        simulation = BegunWithReplicas(case, seed, directory)
        run_or_replay(simulation, __file__, "replicas_begin")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
        for sink, files in simulation.files.items():
            assert [window for window, _ in files.epochs] == list(range(1, case.windows + 1)), f"seed {seed}: {sink}"
        told = sum(items for files in simulation.files.values() for _, items in files.epochs)
        assert told == simulation.items, f"seed {seed}: the windows hold {told} items"
        begun_behind += read_savepoint(directory).fields(WorkerId("a", 0))["progress"]["epoch"] > 0
    assert begun_behind, "no savepoint held a window: the case says nothing"


LARGE = [
    ("barrier", "keyed", {"b": 5}),
    ("unaligned", "keyed", {"b": 1, "c": 4}),
    ("unaligned", "windows", {}),
    *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (
            ("unaligned", "keyed", {"b": 5}),
            ("barrier", "keyed", {"b": 1, "c": 4}),
            ("barrier", "windows", {}),
        )
    ),
]


@pytest.mark.parametrize(("scheme", "shape", "tasks"), LARGE)
def test_the_checkpoints_of_a_large_state_build_on_the_savepoint(
    scheme: str, shape: str, tasks: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All states count as large: no checkpoint holds all of one, and savepoints do."""
    monkeypatch.setattr(copies, "LARGE_BYTES", 0)
    monkeypatch.setattr(copies, "ROUND_SHARE", 0)
    monkeypatch.setattr(copies, "SLICES", 3)
    monkeypatch.setattr(copies, "CHANGES_MAX", 1000)
    for state in (HashMap, ArrayState):
        monkeypatch.setattr(state, "_mostly_changed", lambda self: False)
    restored: list[int] = []
    restore = Chain.restore

    def noting(self: Chain, record: Block, earlier: Sequence[Block]) -> None:
        restore(self, record, earlier)
        restored.append(record.meta["base"])

    monkeypatch.setattr(Chain, "restore", noting)
    for seed in range(FIRST, FIRST + 4 * SEEDS):
        go_on("aligned", scheme, shape, tasks, seed, tmp_path / str(seed))
    assert BEGINNING in restored, "no life went on from the savepoint and what changed since: the case says nothing"
    assert any(base > 0 for base in restored), "none went on from slices behind that"


def test_what_was_on_its_way_keeps_the_number_of_tasks(tmp_path: Path) -> None:
    """Of some seeds feedback is on its way; then the stages at both its ends cannot be rescaled."""
    held = 0
    for seed in range(40):
        directory = tmp_path / str(seed)
        Saving(DataflowCase(EXACT["barrier"], "asp", **LONG, log=[]), seed, directory).run_to_savepoint()
        if not any(read_savepoint(directory).fields(WorkerId("a", index))["moving"] for index in range(2)):
            continue
        held += 1
        with pytest.raises(JobFailed, match="on their way"):
            Begun(DataflowCase(EXACT["barrier"], with_tasks("asp", {"b": 3}), **LONG, log=[]), seed, directory)
        if not IS_WHOLE:
            break
    assert held, "no feedback was on its way: the case says nothing"


def test_a_savepoint_under_local_recovery_holds_nothing_on_its_way(tmp_path: Path) -> None:
    """What waits until a lost task knows its order comes before the line: else no stage beside it can be rescaled."""
    for seed in range(FIRST + 16, FIRST + 16 + SEEDS):  # of the first 25 that one found it
        directory = tmp_path / str(seed)
        case = DataflowCase(EXACT["local"], "keyed", **LONG, kills=6, kill_until_s=0.4, log=[])
        made = Saving(case, seed, directory)
        made.run_to_savepoint()
        whole = read_savepoint(directory)
        moving = {str(worker) for worker in made.nodes if whole.fields(worker)["moving"]}
        assert not moving, f"seed {seed}: items were on their way to {sorted(moving)}"
