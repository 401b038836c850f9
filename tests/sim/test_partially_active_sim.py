"""Scheme `partially_active`: one order whatever the order of arrival, no task that waits for room for ever, and nothing
kept that nobody needs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any

import dataflow_jobs
import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, Paced, run_or_replay
from test_dataflow_sim import EXACT, FAULTS

from riprap.codec.blocks import Block
from riprap.codec.errors import JobFailed
from riprap.codec.ids import WorkerId
from riprap.engine.flow.digests import Digests
from riprap.engine.flow.outlet_link import OutletLink
from riprap.engine.schemes.partially_active import PartiallyActive
from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import Vector

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
MODULUS = 1_000_003


class Chained(DataflowOperator):
    """Hands items on; its state is a sum that depends on the order of all blocks so far, and goes out with each of
    them and with each window's end, so what is behind it depends on that order too."""

    def __init__(self) -> None:
        self.state: Vector = Vector(1)

    def open(self, context: Context) -> None:
        self.is_last = not context.fan_out

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        self._link(int(rows.sum() % MODULUS) + items.task)
        if not self.is_last:
            out.send((np.vstack([rows, [[0, self.state.values[0]]]]),), items.count + 1)
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self._link(epoch)

    def _link(self, weight: int) -> float:
        now = int(self.state.values[0])
        self.state.add(np.array([0]), np.array([(now * 31 + weight + 1) % MODULUS - now], dtype=float))
        return float(self.state.values[0])


class Skewed(DataflowOperator):
    """Without a state: its first task hands all on at once, the others nothing but the window's end."""

    def open(self, context: Context) -> None:
        self.is_silent = context.index > 0

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        if not self.is_silent:
            out.send(items.arrays, items.count)
        return items.count


def _shape(**middle: tuple[str, int]) -> dict[str, Any]:
    stages = {"a": ("Spread", 2, {"by_key": False})} | {name: (*of, {}) for name, of in middle.items()}
    names = list(stages)
    edges = [{"from": one, "to": to} for one, to in pairwise(names)]
    shape = dataflow_jobs._topology(stages, edges)
    for name, (operator, _) in middle.items():
        module = "dataflow_jobs" if operator == "Total" else "test_partially_active_sim"
        shape["stages"][name]["operator"] = f"{module}:{operator}"
    return shape


DEEP = _shape(b=("Chained", 2), c=("Chained", 2), d=("Chained", 1))
SKEWED = _shape(b=("Skewed", 2), d=("Total", 1))
OPTIONS = EXACT["partially_active"]
LONG = {"items": 120, "windows": 5, "disk_s": 0.001}


def _case(shape: Mapping[str, Any], **fields: Any) -> DataflowCase:
    return DataflowCase(OPTIONS, shape, **{**LONG, **fields}, log=[])


def _states(simulation: DataflowSimulation) -> dict[WorkerId, list[float]]:
    operators = {worker: node.task.operator for worker, node in simulation.nodes.items()}
    return {worker: one.state.values.tolist() for worker, one in operators.items() if one.state is not None}


@cache
def _truth() -> list[float]:
    return _sink_of(DEEP, 0, "truth")


def _sink_of(shape: Mapping[str, Any], seed: int, replay: str, **fields: Any) -> list[float]:
    simulation = DataflowSimulation(_case(shape, **fields), seed)
    run_or_replay(simulation, __file__, replay)
    return _states(simulation)[WorkerId("d", 0)]


def test_one_order_whatever_the_order_of_arrival() -> None:
    for seed in range(1, 6):
        assert _sink_of(DEEP, seed, "one_order") == _truth(), f"seed {seed}"


@pytest.mark.parametrize("fault", FAULTS)
def test_what_depends_on_the_order_is_exact_whoever_dies(fault: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        assert _sink_of(DEEP, seed, f"exact_whoever and {fault}", **FAULTS[fault]) == _truth(), f"seed {seed}"


def test_another_order_gives_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the order of arrival, as other schemes take it."""
    monkeypatch.setattr(PartiallyActive, "may_come", lambda self, link: True)
    monkeypatch.setattr(PartiallyActive, "on_receive", lambda self, entry: None)
    assert len({tuple(_sink_of(DEEP, seed, "control")) for seed in range(6)}) > 1


def test_a_link_that_waits_for_its_turn_stops_nobody() -> None:
    """All blocks of a window wait at `d` until the silent task has closed it; the window of the link is smaller."""
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = DataflowSimulation(_case(SKEWED, items=600, windows=3, window=4, kills=2), seed)
        run_or_replay(simulation, __file__, "waits_for_its_turn")


def test_without_room_for_what_waits_the_job_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(PartiallyActive, "_make_room", lambda self: None)
    simulation = DataflowSimulation(_case(SKEWED, items=600, windows=3, window=4), FIRST)
    with pytest.raises(AssertionError, match="not done"):
        simulation.run()


class Measured(DataflowSimulation):
    """Notes the most blocks that a task has kept for its receivers, and the items that were computed again."""

    most = 0

    def step(self) -> None:
        super().step()
        for node in self.nodes.values():
            self.most = max([self.most, *(len(link.held) for link in node.task.outlet.links.values())])


def test_senders_let_go_of_what_a_checkpoint_includes() -> None:
    few, all_ = (_kept(checkpoint_s) for checkpoint_s in (0.02, 1000.0))
    assert few * 3 < all_, f"{few} beside {all_} blocks"


def _kept(checkpoint_s: float) -> int:
    case = DataflowCase(OPTIONS | {"checkpoint_s": checkpoint_s}, DEEP, **LONG | {"items": 800, "windows": 24}, log=[])
    simulation = Measured(case, FIRST)
    run_or_replay(simulation, __file__, "let_go")
    return simulation.most


def test_who_dies_goes_back_to_its_own_checkpoint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else computes anything again, and a task without a state saves none of what it has put out."""
    again: Counter[str] = Counter()
    on_put = PartiallyActive.on_put

    def noting(self: PartiallyActive, link: OutletLink, block: Block, muted: bool) -> None:
        again[self.bench.layout.me.stage] += muted
        on_put(self, link, block, muted)

    monkeypatch.setattr(PartiallyActive, "on_put", noting)
    simulation = DataflowSimulation(_case(DEEP, items=400, kills=4, faulty=("c",), kill_until_s=0.3), FIRST)
    run_or_replay(simulation, __file__, "alone")
    assert [*+again] == ["c"]
    for source in simulation.sources:
        saved = [block for _, _, block in simulation.disk.get(source, [])]
        assert saved and not any(block.meta["extras"] for block in saved)


REPLICATED = OPTIONS | {"replicate": ["a.0", "b", "c.1"]}
"""A source, all tasks of a stage, and one task of another have an active replica."""
FAULTS_OF_COPIES = FAULTS | {
    "primaries": {"kills": 1, "kill_at_once": 99, "faulty": ("a", "b", "c")},
    "both": {"kills": 2, "kill_at_once": 99, "faulty": ("b",)},
    "slowly": {"kills": 6, "faulty": ("b", "c"), "restart_s": 0.15},
}


class PrimariesAlone(DataflowSimulation):
    """No replica dies."""

    def kill(self, worker: WorkerId) -> None:
        if not worker.copy:
            super().kill(worker)


def _replicated(seed: int, fault: str = "", **fields: Any) -> DataflowSimulation:
    case = DataflowCase(REPLICATED, DEEP, **{**LONG, **fields}, log=[])
    simulation = (PrimariesAlone if fault == "primaries" else DataflowSimulation)(case, seed)
    run_or_replay(simulation, __file__, f"replica and {fault}")
    return simulation


@pytest.mark.parametrize("fault", FAULTS_OF_COPIES)
def test_replicas_change_nothing_whoever_dies(fault: str) -> None:
    """Copies compare what they put out all the while, and find no difference."""
    compared = 0
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _replicated(seed, fault, **FAULTS_OF_COPIES[fault])
        assert _states(simulation)[WorkerId("d", 0)] == _truth(), f"seed {seed}"
        compared += _compared(simulation)
    assert compared


def _compared(simulation: DataflowSimulation) -> int:
    return sum(node.counts.get("windows_compared", 0) for node in simulation.nodes.values())


class Drifting(Chained):
    """Puts something else out in one block of a window, where it is told so."""

    drifts: tuple[int, int] = (0, 0)
    """The window, and the number of the block in it."""
    place = ""

    def open(self, context: Context) -> None:
        super().open(context)
        self._window, self._blocks, self._items = 0, 0, 0

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        if items.epoch != self._window:
            self._window, self._blocks, self._items = items.epoch, 0, 0
        self._blocks += 1
        if (self._window, self._blocks) == self.drifts:
            self.place = f"block {self._blocks}, items {self._items + 1} to {self._items + items.count + 1} "
            rows = rows + 1
        self._items += items.count + 1
        out.send((np.vstack([rows, [[0, 0]]]),), items.count + 1)
        return items.count


DRIFTING = _shape(b=("Drifting", 2), c=("Chained", 2), d=("Chained", 1))


@pytest.mark.parametrize("copy", [0, 1])
def test_copies_that_differ_end_the_job_and_the_first_difference_is_named(copy: int) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        case = DataflowCase(OPTIONS | {"replicate": ["b", "c.1"]}, DRIFTING, **LONG, log=[])
        simulation = DataflowSimulation(case, seed)
        other = simulation.nodes[WorkerId("b", 1, copy)].task.operator
        other.drifts = (3, 2)
        with pytest.raises(JobFailed) as raised:
            simulation.run()
        words = str(raised.value)
        assert words.startswith("copies of b.1 differ: in window 3, b.1") and " has put out to c." in words, words
        assert f"first in {other.place}" in words, words


def test_digests_of_what_receivers_have_saved_are_forgotten() -> None:
    case = DataflowCase(REPLICATED | {"checkpoint_s": 0.02}, DEEP, **LONG | {"items": 800, "windows": 24}, log=[])
    simulation = DataflowSimulation(case, FIRST)
    run_or_replay(simulation, __file__, "forgotten")
    schemes = [node.task.scheme for worker, node in simulation.nodes.items() if worker.stage == "b"]
    kept = [len(windows) for scheme in schemes for windows in scheme._digests._closed.values()]
    assert len(kept) == 8 and max(kept) < case.windows / 2, kept


def test_a_job_without_copies_digests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Digests, "put")
    simulation = DataflowSimulation(_case(DEEP), FIRST)
    simulation.run()
    assert not _compared(simulation)


def test_copies_of_a_task_hold_the_same_and_one_of_them_sends() -> None:
    simulation = _replicated(FIRST)
    states = _states(simulation)
    copies = [worker for worker in states if worker.copy]
    assert copies == [WorkerId("b", 0, 1), WorkerId("b", 1, 1), WorkerId("c", 1, 1)]
    assert all(states[copy] == states[copy.primary] for copy in copies)
    assert not any("duplicates_dropped" in node.counts for node in simulation.nodes.values())


@pytest.mark.parametrize(("copied", "is_over"), [(True, True), (False, False)])
def test_a_replica_takes_over_at_once(copied: bool, is_over: bool) -> None:
    """Beside the control: without a replica all wait for the restart, which takes long."""
    options = OPTIONS | {"replicate": ["b"] if copied else []}
    simulation = DataflowSimulation(DataflowCase(options, DEEP, **LONG | {"restart_s": 5.0}, log=[]), FIRST)
    simulation.at(0.03, lambda: simulation.kill(WorkerId("b", 0)))
    run_or_replay(simulation, __file__, "takes_over")
    assert (simulation.now < 5.0) == is_over
    assert _states(simulation)[WorkerId("d", 0)] == _truth()


def test_the_copy_that_takes_over_says_so_and_the_restarted_one_stands_by() -> None:
    simulation = DataflowSimulation(DataflowCase(OPTIONS | {"replicate": ["b"]}, DEEP, **LONG, log=[]), FIRST)
    killed: list[WorkerId] = []

    def kill_the_active() -> None:
        copies = (WorkerId("b", 0), WorkerId("b", 0, 1))
        killed.extend(one for one in copies if not simulation.nodes[one].counts["standby"])
        simulation.kill(killed[0])

    simulation.at(0.03, kill_the_active)
    run_or_replay(simulation, __file__, "says_so")
    (dead,) = killed
    other = next(one for one in (WorkerId("b", 0), WorkerId("b", 0, 1)) if one != dead)
    assert [simulation.nodes[one].counts["standby"] for one in (dead, other)] == [1, 0]


def test_a_replica_that_stands_still_holds_nobody_up() -> None:
    options = LONG | {"items": 400, "window": 4}
    simulation = DataflowSimulation(DataflowCase(OPTIONS | {"replicate": ["b"]}, DEEP, **options, log=[]), FIRST)
    simulation.at(0.02, lambda: simulation._hang(WorkerId("b", 0, 1), 5.0))
    run_or_replay(simulation, __file__, "stands_still")
    assert simulation.now < 5.0


def _of_two(rebuild_after_s: float | None, **fields: Any) -> DataflowSimulation:
    options = OPTIONS | {"replicate": ["b"], "checkpoint_s": 0.02, "rebuild_after_s": rebuild_after_s}
    sizes = {"items": 800, "windows": 24, "disk_s": 0.001}
    return DataflowSimulation(DataflowCase(options, DEEP, **sizes | fields, log=[]), FIRST)


@cache
def _truth_of_two() -> list[float]:
    simulation = _of_two(None)
    run_or_replay(simulation, __file__, "of_two")
    return _states(simulation)[WorkerId("d", 0)]


def test_a_copy_that_starts_again_goes_on_from_what_the_other_has_saved() -> None:
    """It was away for long, so what it has saved itself is old."""
    copy, rebuilt = WorkerId("b", 0, 1), 0
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _of_two(None, restart_s=0.3)
        simulation.rng.seed(seed)
        simulation.at(0.03, partial(simulation.kill, copy))
        run_or_replay(simulation, __file__, "starts_again")
        assert _states(simulation)[WorkerId("d", 0)] == _truth_of_two(), f"seed {seed}"
        rebuilt += simulation.nodes[copy].restored_of == copy.primary
    assert rebuilt


SLIDING = 3
"""Windows that `Recent` adds up."""


class Recent(DataflowOperator):
    """Sends at each window's end the sum of the last ones, of which its state holds one each."""

    def __init__(self) -> None:
        self.state: Vector = Vector(SLIDING)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        self.state.add(np.array([items.epoch % SLIDING]), np.array([float(rows[:, 1].sum())]))
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        out.send((np.array([[0.0, float(self.state.values.sum())]]),), 1)
        oldest = (epoch + 1) % SLIDING
        self.state.add(np.array([oldest]), -self.state.values[[oldest]])


REPLAYED = _shape(b=("Recent", 2), c=("Recent", 2), d=("Chained", 1))


def _replayed(seed: int, replay_s: float, **fields: Any) -> DataflowSimulation:
    options = OPTIONS | {"checkpoint_s": None, "replay_s": replay_s}
    case = {"items": 800, "windows": 24, "disk_s": 0.001, **fields}
    simulation = DataflowSimulation(DataflowCase(options, REPLAYED, **case, log=[]), seed)
    run_or_replay(simulation, __file__, f"replayed, {replay_s}")
    return simulation


@pytest.mark.parametrize("faulty", [("b",), ("c",), ("a", "b", "c"), ()])
def test_without_checkpoints_a_state_is_computed_from_what_it_depends_on(faulty: tuple[str, ...]) -> None:
    """Alone, and all at once."""
    faults = {"kills": 2, "kill_at_once": 99, "faulty": faulty}
    undisturbed = _states(_replayed(FIRST, 0.2))[WorkerId("d", 0)]
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _replayed(seed, 0.2, **faults)
        assert _states(simulation)[WorkerId("d", 0)] == undisturbed, f"seed {seed}"
        for worker, node in simulation.nodes.items():
            recovery = node.task.recovery
            assert not recovery or (recovery["divergence_max"] is None) == (worker.stage in "bc")


def test_a_replay_that_is_too_short_leaves_something_out() -> None:
    """The control."""
    faults = {"kills": 2, "kill_at_once": 99}
    undisturbed = _states(_replayed(FIRST, 0.2))[WorkerId("d", 0)]
    found = (_states(_replayed(seed, 1e-6, **faults))[WorkerId("d", 0)] for seed in range(40))
    assert any(one != undisturbed for one in found)


def test_without_checkpoints_no_state_is_saved_but_a_destinations() -> None:
    simulation = _replayed(FIRST, 0.02)
    saved = [block for worker in ("b", "c") for _, _, block in simulation.disk.get(WorkerId(worker, 0), [])]
    assert saved and not any(block.arrays for block in saved)
    assert any(block.arrays for _, _, block in simulation.disk[WorkerId("d", 0)])


def test_a_source_that_starts_again_catches_up_with_what_its_replica_has_sent() -> None:
    """It goes back to the beginning of the stream, for there is no checkpoint."""
    options = OPTIONS | {"replicate": ["a.0"], "checkpoint_s": 1000.0}
    simulation = Paced(DataflowCase(options, DEEP, items=800, windows=24, disk_s=0.001, log=[]), FIRST)
    first, copy = WorkerId("a", 0), WorkerId("a", 0, 1)
    simulation.at(0.5, partial(simulation.kill, first))
    run_or_replay(simulation, __file__, "catches_up")
    assert _states(simulation)[WorkerId("d", 0)] == _truth_of_two()
    read = {one: simulation.nodes[one].task.epoch for one in (first, copy)}
    assert simulation.nodes[first].life == 2 and read[first] >= read[copy] - 6, read


@pytest.mark.parametrize("rebuild_after_s", [0.02, None])
def test_a_copy_that_is_far_behind_begins_anew(rebuild_after_s: float | None) -> None:
    """Beside the control, which catches up by itself."""
    copy = WorkerId("b", 0, 1)
    simulation = _of_two(rebuild_after_s)
    simulation.at(0.02, lambda: simulation._hang(copy, 0.3))
    run_or_replay(simulation, __file__, "far_behind")
    assert _states(simulation)[WorkerId("d", 0)] == _truth_of_two()
    overtaken = [line for line in simulation.case.log if "overtaken" in line]
    assert all(str(copy) in line for line in overtaken) and bool(overtaken) == (rebuild_after_s is not None)
    assert (simulation.nodes[copy].life > 1) == bool(overtaken)


def test_a_store_that_takes_one_record_at_a_time_gets_the_last_checkpoint_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last window may end while the record of an earlier one waits for room: it must be saved all the same."""
    monkeypatch.setattr(DataflowNode, "refuses", lambda self: self.saves > self.durable)
    options = OPTIONS | {"checkpoint_s": 0.001}
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = DataflowSimulation(DataflowCase(options, DEEP, **LONG | {"disk_s": 0.05}, log=[]), seed)
        run_or_replay(simulation, __file__, "one_record_at_a_time")
        assert _states(simulation)[WorkerId("d", 0)] == _truth()


ADAPTING = OPTIONS | {"adapt": True, "replicate": ["a.0", "b.0"], "checkpoint_s": 0.02}
"""Any task but the destination's may have a replica; these two do at first."""


def _adapted(seed: int, swaps: int, **fields: Any) -> DataflowSimulation:
    """Replicas begin and end at random moments."""
    simulation = DataflowSimulation(DataflowCase(ADAPTING, DEEP, **{**LONG, **fields}, log=[]), seed)
    for _ in range(swaps):
        copy, wanted = simulation.rng.choice(simulation.topology.copies), simulation.rng.random() < 0.7
        simulation.at(simulation.rng.uniform(0.0, 0.3), partial(simulation.want, copy, wanted))
    run_or_replay(simulation, __file__, "adapted")
    return simulation


@pytest.mark.parametrize("fault", FAULTS_OF_COPIES)
def test_replicas_that_begin_and_end_change_nothing_whoever_dies(fault: str) -> None:
    late, compared = 0, 0
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = _adapted(seed, 8, **FAULTS_OF_COPIES[fault])
        assert _states(simulation)[WorkerId("d", 0)] == _truth(), f"seed {seed}"
        late += sum(worker.copy > 0 for worker in simulation.nodes) - 2
        compared += _compared(simulation)
    assert late > 0 and compared


def test_nothing_is_kept_for_replicas_that_do_not_run() -> None:
    """Nor do they hold up the checkpoints of their senders."""
    case = DataflowCase(ADAPTING, DEEP, **LONG | {"items": 800, "windows": 24}, log=[])
    simulation = Measured(case, FIRST)
    run_or_replay(simulation, __file__, "do_not_run")
    twins = [(node, twin) for node in simulation.nodes.values() for twin in _twins(node)]
    idle = [(node, twin) for node, twin in twins if twin.to in simulation.unwanted]
    assert len(idle) == 9  # from a.0, its replica and a.1 to b.1~1; from b.0, its replica and b.1 to c.0~1 and c.1~1
    assert not any(twin.held or twin.waiting or twin.last for _, twin in idle)
    assert simulation.most * 3 < _kept(1000.0)


def _twins(node: DataflowNode) -> list[OutletLink]:
    return [twin for link in node.task.outlet.links.values() for twin in link.twins]


def test_a_replica_that_begins_late_gets_what_the_other_copy_has_not_saved() -> None:
    """Nothing was saved before: it computes all from the start, at its first try."""
    copy = WorkerId("b", 1, 1)
    case = DataflowCase(ADAPTING | {"checkpoint_s": 1000.0}, DEEP, **LONG, log=[])
    simulation = DataflowSimulation(case, FIRST)
    simulation.at(0.03, partial(simulation.want, copy, True))
    run_or_replay(simulation, __file__, "begins_late")
    assert simulation.truth[copy] == (2, True)
    assert _states(simulation)[WorkerId("d", 0)] == _truth()
    assert _states(simulation)[copy] == _states(simulation)[copy.primary]


def test_a_replica_that_lacks_what_is_gone_begins_anew() -> None:
    """It began from nothing, and its senders hear only then that it is to run."""
    copy = WorkerId("b", 1, 1)
    simulation = DataflowSimulation(DataflowCase(ADAPTING, DEEP, **LONG | {"items": 800, "windows": 24}, log=[]), FIRST)

    def begin_unheard() -> None:
        simulation.unwanted.remove(copy)
        simulation.disk.pop(copy, None)
        records, simulation.records_for = simulation.records_for, lambda worker: []
        simulation.restart(copy, 2)
        simulation.records_for = records

    simulation.at(0.1, begin_unheard)
    run_or_replay(simulation, __file__, "begins_anew")
    assert simulation.truth[copy][0] > 2
    assert _states(simulation)[WorkerId("d", 0)] == _truth_of_two()
