"""Replicas of destinations: what one of the copies writes is whole, and the same, whoever dies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, run_or_replay
from test_partially_active_sim import DEEP, FAULTS, FIRST, LONG, OPTIONS, SEEDS, Chained

from riprap.codec.ids import WorkerId
from riprap.engine.worker.standby import StandbyOutputs
from riprap.operators.dataflow import Emitter


class Telling(Chained):
    """Puts out its state at each window's end, as a row."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[list[float]] = []

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        super().process_punctuation(epoch, out)
        self._rows.append([epoch, self.state.values[0]])

    def outputs(self) -> np.ndarray | None:
        rows, self._rows = self._rows, []
        return np.array(rows) if rows else None


class Files:
    """The output of one destination, which outlives those who write it: rows, and the windows that are announced."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []
        self.epochs: list[tuple[int, int]] = []
        """Windows with their items."""
        self.lost = 0
        """Rows that a writer was to begin behind, and that nobody had written."""

    def at(self, first: int, count: int) -> np.ndarray:
        return np.array(self.rows[first : first + count])


class Writing:
    """The journal of the copy that writes: as engine/worker/outputs.py, in memory."""

    writes, holds, others = True, False, 0

    def __init__(self, files: Files) -> None:
        self._files, self._pending = files, []

    @property
    def announced(self) -> int:
        return self._files.epochs[-1][0] if self._files.epochs else 0

    def begin(self, epoch: int, items: int) -> None:
        """All up to this window was told by the job whose savepoint this one begins from."""
        if epoch and not self._files.epochs:
            self._files.epochs += [*((before, 0) for before in range(1, epoch)), (epoch, items)]

    def cut(self, rows: int) -> None:
        self._files.lost += max(0, rows - len(self._files.rows))
        del self._files.rows[rows:]

    def committed(self, boundary: Any, latency_s: float, rows: np.ndarray | None) -> None:
        self.add(boundary, latency_s, rows, 0.0)

    def add(self, boundary: Any, latency_s: float, rows: np.ndarray | None, at: float) -> None:
        self._files.rows += [] if rows is None else [tuple(row) for row in rows.tolist()]
        self._pending.append((int(boundary.epoch), boundary.items))

    def tentative(self, boundary: Any, latency_s: float, absent: Sequence[str], rows: np.ndarray | None) -> None:
        assert boundary.epoch > self.announced, "what is exact is not shown once more"

    def durable(self, epoch: int) -> None:
        for window in [window for window in self._pending if window[0] <= epoch]:
            self._pending.remove(window)
            if window[0] > self.announced:
                assert window[0] == self.announced + 1, f"window {window[0]} is announced after {self.announced}"
                self._files.epochs.append(window)


class Copied(DataflowSimulation):
    """The controller has the other copy of a destination write when the one that wrote is lost and it is up."""

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.files: dict[WorkerId, Files] = {}
        self.writers: dict[WorkerId, WorkerId] = {}
        self.moved = 0
        super().__init__(case, seed)
        for sink in self.sinks:
            self.announced[sink] = self.files.setdefault(sink.primary, Files()).epochs
            self._tell_role(sink)

    def journal_of(self, sink: WorkerId) -> StandbyOutputs:
        files = self.files.setdefault(sink.primary, Files())
        writing: Any = Writing(files)
        return StandbyOutputs(sink, lambda: writing.announced, files.at, lambda: writing)

    def is_done(self, sink: WorkerId) -> bool:
        """A copy says so when it writes, as workers do (engine/worker/worker.py)."""
        writer = self.nodes[self.writers[sink.primary]]
        return super().is_done(sink) and bool(writer.task.journal.writes)

    def _tell_role(self, worker: WorkerId) -> None:
        """As a view does, which the worker may hear late, or not at all."""
        node: DataflowNode = self.nodes[worker]
        if node.me == self.writers.setdefault(worker.primary, worker.primary):
            self.tell(node, lambda: node.task.journal.stands_by and node.task.journal.begin_to_write(False))

    def _move(self, sink: WorkerId) -> None:
        """Another writer where the one is down, if anybody is up."""
        up = [one for one in self.topology.copies_with(sink) if self.truth[one][1]]
        if up and not self.truth[self.writers[sink]][1]:
            self.writers[sink] = up[0]
            self.moved += 1
            self._tell_role(up[0])

    def on_lost(self, worker: WorkerId) -> None:
        super().on_lost(worker)
        if worker.primary in self.files:
            self._move(worker.primary)

    def restart(self, worker: WorkerId, life: int) -> None:
        super().restart(worker, life)
        if worker.primary in self.files:
            self._tell_role(worker)
            self._move(worker.primary)


TOLD = DEEP | {
    "stages": {**DEEP["stages"], "d": {"operator": "test_destination_replicas_sim:Telling", "parallelism": 2}}
}
REPLICATED = OPTIONS | {"replicate": ["b.0", "d"]}
FAULTS_OF_DESTINATIONS = {name: fault for name, fault in FAULTS.items() if "rollbacks" not in fault} | {
    "destinations": {"kills": 4, "faulty": ("d",), "restart_s": 0.02},
    "both": {"kills": 2, "kill_at_once": 99, "faulty": ("d",)},
    "slowly": {"kills": 6, "faulty": ("d",), "restart_s": 0.15},
}
"""Under this scheme nobody goes back with others."""


def _run(seed: int, replay: str, **fields: Any) -> Copied:
    simulation = Copied(DataflowCase(REPLICATED, TOLD, **{**LONG, **fields}, log=[]), seed)
    run_or_replay(simulation, __file__, replay)
    return simulation


def _written(simulation: Copied) -> dict[WorkerId, tuple[list[Any], list[Any]]]:
    return {sink: (files.rows, files.epochs) for sink, files in simulation.files.items()}


@cache
def _undisturbed() -> dict[WorkerId, tuple[list[Any], list[Any]]]:
    return _written(_run(0, "undisturbed"))


def test_undisturbed_the_primary_writes_and_the_replica_opens_nothing() -> None:
    simulation = _run(FIRST, "undisturbed")
    assert not simulation.moved
    for sink, files in simulation.files.items():
        assert [row[0] for row in files.rows] == [epoch for epoch, _ in files.epochs] == list(range(1, 6))
        assert simulation.nodes[sink].task.journal.writes
        assert not simulation.nodes[sink._replace(copy=1)].task.journal.writes


@pytest.mark.parametrize("fault", FAULTS_OF_DESTINATIONS)
def test_all_is_written_once_and_the_same_whoever_dies(fault: str) -> None:
    moved = 0
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _run(seed, f"written_once and {fault}", **FAULTS_OF_DESTINATIONS[fault])
        assert _written(simulation) == _undisturbed(), f"seed {seed}"
        assert not any(files.lost for files in simulation.files.values()), f"seed {seed}: rows that nobody has"
        moved += simulation.moved
    assert moved or fault in ("one", "cuts", "two-at-once")


def test_a_copy_that_saves_what_nobody_has_written_loses_it_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: it does not wait with its checkpoint until the other has announced what that includes."""
    monkeypatch.setattr(StandbyOutputs, "holds", False)
    with pytest.raises(AssertionError, match=r"is announced after|rows that nobody has"):
        for seed in range(20):
            simulation = _run(seed, "control", **FAULTS_OF_DESTINATIONS["both"])
            assert not any(files.lost for files in simulation.files.values()), "rows that nobody has"


def test_the_output_goes_on_at_once() -> None:
    """Beside the control: without a replica it waits for the restart, which takes long."""
    for replicate, is_over in (["d"], True), ([], False):
        options = OPTIONS | {"replicate": replicate}
        simulation = Copied(DataflowCase(options, TOLD, **LONG | {"restart_s": 5.0}, log=[]), FIRST)
        simulation.at(0.03, lambda sim=simulation: sim.kill(WorkerId("d", 0)))
        while len(simulation.files[WorkerId("d", 0)].epochs) < simulation.case.windows:
            simulation.step()
        assert (simulation.now < 1.0) == is_over


@pytest.mark.parametrize("rebuild_after_s", [0.02, None])
def test_one_on_standby_that_is_far_behind_begins_anew(rebuild_after_s: float | None) -> None:
    """Beside the control, which catches up by itself. It knows how far the other is by what that has announced."""
    options = REPLICATED | {"replicate": ["d"], "rebuild_after_s": rebuild_after_s}
    case = DataflowCase(options, TOLD, **LONG | {"items": 800, "windows": 24}, log=[])
    simulation, copy = Copied(case, FIRST), WorkerId("d", 1, 1)
    simulation.at(0.02, lambda: simulation._hang(copy, 0.3))
    run_or_replay(simulation, __file__, "far_behind")
    overtaken = [line for line in case.log if "overtaken" in line]
    assert all(str(copy) in line for line in overtaken) and bool(overtaken) == (rebuild_after_s is not None)
    assert [epoch for epoch, _ in simulation.files[copy.primary].epochs] == list(range(1, 25))
