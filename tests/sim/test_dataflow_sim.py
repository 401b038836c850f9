"""Graphs of stages under random kills, hangs, lost connections, delays and refusals of the store.

By default each scheme meets each shape and each fault, and each shape each fault, and in further tests each value
stands; `make sim` runs all combinations.
`RIPRAP_SIM_SEEDS` sets how many seeds each case gets. A failure prints its seed and the command that replays it.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import partial
from itertools import product

import checkpointing
import dataflow_jobs
import numpy as np
import pytest
from dataflow_jobs import SHAPES
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, Paced, run_or_replay
from pairs import chosen

from riprap.codec.ids import WorkerId
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.task import Task
from riprap.engine.schemes.mini_batch import MiniBatch
from riprap.engine.schemes.registry import SCHEMES, upstream_backup

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "1"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))

CHECKPOINTS = {"interval_ms": 20, "min_pause_ms": 0, "timeout_ms": 500, "tolerated_failures": 3}
PASSIVE = {"scheme": "partially_active", "checkpoint_s": 0.02, "memory_bytes": 1 << 16, "replicate": []} | {
    "tentative_after_ms": None,
    "reconcile": True,
    "rebuild_after_s": 10.0,
    "replay_s": None,
}
EXACT = {
    "mini_batch": {"scheme": "mini_batch"},
    "upstream_backup": {"scheme": "upstream_backup", "memory_bytes": 1 << 16},
    "barrier": CHECKPOINTS | {"scheme": "barrier", "alignment": "aligned", "debloat_ms": 1},
    "local": CHECKPOINTS | {"scheme": "barrier", "alignment": "aligned", "recovery": "local", "memory_bytes": 1 << 16},
    "unaligned": CHECKPOINTS | {"scheme": "barrier", "alignment": "unaligned"},
    "timeout": CHECKPOINTS | {"scheme": "barrier", "alignment": "timeout", "alignment_timeout_ms": 4, "debloat_ms": 4},
    "stop_the_world": CHECKPOINTS | {"scheme": "stop_the_world"},
    "optimistic": CHECKPOINTS | {"scheme": "optimistic"},
    "partially_active": PASSIVE,
}
THETA, L, GAMMA, ALPHA = 60.0, 16.0, 12.0, 3.0
APPROXIMATE = {
    "scheme": "approximate", "theta": THETA, "l": L, "gamma": GAMMA, "beta": 1.0, "window": "none", "window_epochs": 1,
}  # fmt: skip
FAULTS = {
    "one": {"kills": 1},
    "two-at-once": {"kills": 2, "kill_at_once": 2},
    "everybody": {"kills": 2, "kill_at_once": 99},
    "many": {"kills": 9, "restart_s": 0.01},
    "cuts": {"cuts": 4, "hangs": 2, "kills": 2},
    "rollbacks": {"rollbacks": 3, "kills": 2, "hangs": 1, "cuts": 1},
}


def run(case: DataflowCase, seed: int, replay: str) -> DataflowSimulation:
    """One simulation; a failure names what replays it."""
    simulation = DataflowSimulation(replace(case, log=[]), seed)
    run_or_replay(simulation, __file__, replay)
    for sink, announced in simulation.announced.items():
        assert [window for window, _ in announced] == list(range(1, case.windows + 1)), f"seed {seed}: {sink}"
    return simulation


def errors(simulation: DataflowSimulation) -> np.ndarray:
    """By how much the total of each key is off."""
    return simulation.totals() - simulation.truth_of_keys()


LOOPS = ("self", "two_cycles", "delta", "async_loop", "nested", "nested_stages")
"""Which wait for what inexact schemes may lose."""
FED_BACK = ("bsp", "ssp", "asp")
NEED_ORDER = ("async_loop", "nested_stages")
"""A scheme that repeats no order is refused with these (engine/run/kinds/dataflow.py)."""
IN_SUPERSTEPS = ("self", "two_cycles", "delta", "nested")
"""In which the scheme `optimistic` begins loops from what was found, and which `partially_active` takes."""
CASES = [
    (scheme, shape)
    for scheme, options in EXACT.items()
    for shape in SHAPES
    if "interval_ms" not in options or not shape.startswith(("coded", "copied"))  # which take no checkpoints
    if not SCHEMES[options["scheme"]].reorders or shape not in NEED_ORDER
    if scheme != "optimistic" or shape in IN_SUPERSTEPS  # elsewhere it is barrier, or refused
    if scheme != "local" or shape not in (*LOOPS, *FED_BACK)  # which is refused
    if scheme != "partially_active" or shape not in (*NEED_ORDER, "asp")  # likewise
    if scheme != "partially_active" or not shape.startswith(("coded", "copied"))  # likewise
]
WITHOUT_LOOPS = [shape for shape in SHAPES if shape not in LOOPS]


@pytest.mark.parametrize(("name", "shape"), chosen([*CASES, *product(("none", "approximate"), WITHOUT_LOOPS)], 1))
def test_undisturbed_every_scheme_is_exact(name: str, shape: str) -> None:
    scheme = {"none": {"scheme": "none"}, "approximate": APPROXIMATE} | EXACT
    simulation = run(DataflowCase(scheme[name], shape), FIRST, shape)
    assert not errors(simulation).any()
    assert sum(items for ends in simulation.announced.values() for _, items in ends) == simulation.items
    assert not any(node.task.lost for node in simulation.nodes.values())


@pytest.mark.parametrize(("scheme", "shape", "fault"), chosen([(*case, fault) for case in CASES for fault in FAULTS]))
def test_each_item_is_counted_once_whoever_dies(scheme: str, shape: str, fault: str) -> None:
    case = DataflowCase(EXACT[scheme], shape, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(case, seed, f"{scheme}-{shape}-{fault}")
        assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"
        counted = sum(items for ends in simulation.announced.values() for _, items in ends)
        assert counted == simulation.items, f"seed {seed}: the windows hold {counted} items"


TWICE_MERGED = dataflow_jobs._topology(
    {"s": ("Spread", 2, {}), "m": ("Spread", 2, {}), "a": ("Spread", 2, {}), "b": ("Total", 1, {"feeds_back": True})},
    [{"from": pair[0], "to": pair[1], "feedback": pair == "ba"} for pair in ("sm", "ma", "ab", "ba")],
)
"""Feedback comes to a stage behind one that takes from several tasks, of which one may be windows ahead."""


@pytest.mark.parametrize("name", [name for name, shape in CASES if shape == "bsp"])
def test_what_is_windows_ahead_does_not_stand_before_what_feedback_depends_on(name: str) -> None:
    for seed in range(FIRST, FIRST + 3 * SEEDS):
        for faults in ({}, {"kills": 3}):
            simulation = run(DataflowCase(EXACT[name], TWICE_MERGED, **faults), seed, f"windows_ahead and {name}")
            assert not errors(simulation).any(), f"seed {seed}: {errors(simulation)}"


def test_nobody_waits_for_feedback_that_follows_from_the_end_of_a_window_that_is_lost() -> None:
    """Who had taken it in is dead, and its sender goes on with the next window, which may not be taken before."""
    for seed in range(FIRST, FIRST + 6 * SEEDS):
        run(DataflowCase({"scheme": "none"}, TWICE_MERGED, **FAULTS["two-at-once"]), seed, "that_is_lost")


@pytest.mark.parametrize("name", ["upstream_backup", "approximate"])
def test_who_remembers_nothing_gets_the_last_feedback_from_a_sender_that_was_restored(name: str) -> None:
    """Both have died. Whoever had taken that in had acknowledged it, so its sender had no need to send it again."""
    scheme = EXACT | {"approximate": APPROXIMATE}
    stages = SHAPES["bsp"]["stages"]
    own = {"a": stages["a"] | {"fault_tolerance": {"scheme": "none"}}, "b": stages["b"]}
    shape = SHAPES["bsp"] | {"stages": own}
    case = DataflowCase(scheme[name], shape, items=60, heavy=False, kills=3, kill_at_once=3, kill_until_s=0.3)
    for seed in range(FIRST, FIRST + 16 * SEEDS):
        run(case, seed, f"gets_the_last_feedback and {name}")


def test_nobody_waits_for_a_state_that_is_due_after_more_than_it_may_send() -> None:
    """A stage of upstream_backup saves its state, and acknowledges, each 1 % of the items; the one before it sends no
    more than gamma without that."""
    shape = dataflow_jobs._topology(
        {"a": ("ByKey", 1, {}), "b": ("Sums", 1, {}), "c": ("Sums", 1, {}), "d": ("Sums", 1, {})},
        [{"from": pair[0], "to": pair[1]} for pair in ("ab", "bc", "cd")],
    )
    shape["stages"]["c"]["fault_tolerance"] = EXACT["upstream_backup"]
    simulation = run(DataflowCase(APPROXIMATE, shape, items=2000, windows=4), FIRST, "more_than_it_may_send")
    assert not errors(simulation).any()


UNBOUNDED = ("windows", "local", "coded_inside", "keyed", "panes", *LOOPS)


@pytest.mark.parametrize("fault", [*FAULTS, "ten"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in UNBOUNDED])
def test_approximate_errors_stay_below_the_users_thresholds(shape: str, fault: str) -> None:
    """AF 3.5, whatever the number of failures: Theta + L alpha, and alpha more for each of the two items of a death
    that cross the two parts of theta. Nothing is counted twice, and sources lose nothing: they go back.

    Not so where a stage that hears several others and one behind it die at once: what the first sends again may have
    other numbers then, and the second's output is known by those (docs/schemes.md)."""
    faults = FAULTS.get(fault, {"kills": 10, "restart_s": 0.01})
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = run(
            DataflowCase(APPROXIMATE, shape, heavy=False, **faults), seed, f"approximate and {shape}-{fault}"
        )
        off = errors(simulation)
        deaths = sum(worker in simulation.sinks for worker in simulation.killed)
        assert (off <= 0).all(), f"seed {seed}: {off}"
        between = {*simulation.killed} - {*simulation.sinks, *simulation.sources}
        bound = (THETA + L * ALPHA if deaths else 0) + ((L + GAMMA) * ALPHA if between else 0)
        assert -off.sum() <= bound + 2 * ALPHA * deaths, f"seed {seed}: {off}"


@pytest.mark.parametrize(("shape", "fault"), chosen(list(product(WITHOUT_LOOPS, FAULTS)), 1))
def test_without_fault_tolerance_the_job_ends_all_the_same(shape: str, fault: str) -> None:
    for seed in range(FIRST, FIRST + max(1, SEEDS // 3)):
        run(DataflowCase({"scheme": "none"}, shape, **FAULTS[fault]), seed, f"without and {shape}-{fault}")


MORE = 4
"""Seeds beside these, until a life began within a loop."""
SLOW_WIRE = {"wire_s": 0.02, "kills": 6, "kill_until_s": 2.0}


HIT = [case for case in CASES if case[1] in ("self", "nested", *NEED_ORDER)]


@pytest.mark.parametrize(("scheme", "shape"), chosen(HIT, 1))
def test_loops_that_are_hit_end_all_the_same(scheme: str, shape: str) -> None:
    """A slow wire makes loops longer than checkpoints are apart: lives begin within one."""
    case = DataflowCase(EXACT[scheme], shape, **SLOW_WIRE)
    within = []

    class Noting(DataflowSimulation):
        def restore(self, node: DataflowNode) -> None:
            super().restore(node)
            within.append(node.task.progress.iterating)

    takes_checkpoints = "interval_ms" in EXACT[scheme]
    for seed in range(FIRST, FIRST + SEEDS + MORE):
        if seed > FIRST + SEEDS // 2 and (not takes_checkpoints or any(within) or scheme == "optimistic"):
            break
        simulation = Noting(replace(case, log=[]), seed)
        run_or_replay(simulation, __file__, f"loops_that_are_hit and {scheme}-{shape}")
        assert not errors(simulation).any(), f"seed {seed}"
    if scheme == "optimistic":
        assert within and not any(within), "a checkpoint within a loop"
    else:
        assert any(within) or not takes_checkpoints


def test_a_loop_that_needs_order_goes_wrong_where_none_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few states of upstream_backup, so that much is computed again: what was sent in one order is taken for what
    another order would send. A loop in supersteps says the same in any order."""
    monkeypatch.setattr(upstream_backup, "STATES", 1)
    case = DataflowCase(EXACT["upstream_backup"], "async_loop", **FAULTS["everybody"])
    assert any(errors(run(case, seed, "a_loop_that_needs_order")).any() for seed in range(12))
    for seed in range(12):
        assert not errors(run(replace(case, shape="self"), seed, "a_loop_that_needs_order")).any()


def test_a_loop_goes_wrong_where_feedback_overtakes_what_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage between puts out blocks of its input and of feedback in turns: under other numbers, had they another
    order."""
    monkeypatch.setattr(MiniBatch, "overtakes", True)
    case = DataflowCase(EXACT["mini_batch"], "nested_stages", **SLOW_WIRE)
    with pytest.raises(AssertionError, match="not done"):
        for seed in range(4):
            assert not errors(run(case, seed, "feedback_overtakes")).any(), "not done right"


class OneStands(DataflowSimulation):
    """A source stands still for long; notes how many windows ahead of the closed ones items come to destinations."""

    ahead = 0

    def __init__(self, case: DataflowCase, seed: int) -> None:
        super().__init__(case, seed)
        self.at(0.01, lambda: self._hang(self.sources[1], 3.0))

    def make_task(self, node: DataflowNode) -> Task:
        task = super().make_task(node)
        take = task._take

        def note(entry: Entry) -> None:
            if node.me in self.sinks:
                self.ahead = max(self.ahead, entry.block.epoch - task.progress.epoch)
            take(entry)

        task._take = note
        return task


@pytest.mark.parametrize(
    "scheme", [{"scheme": "none"}, EXACT["mini_batch"], APPROXIMATE], ids=lambda scheme: scheme["scheme"]
)
def test_no_source_runs_far_ahead_of_another(scheme: dict[str, object]) -> None:
    """What destinations keep of open windows does not grow with the stream, however long a source stands still: it is
    the room of a link, here of two blocks a window. (Links of upstream_backup have room for the whole of this stream.)
    """
    case = DataflowCase(scheme, "full", items=480, windows=120, window=24)
    simulation = OneStands(replace(case, log=[]), FIRST)
    simulation.run()
    assert not errors(simulation).any()
    assert 2 < simulation.ahead <= case.window // 2 + 2


def test_a_seed_repeats_itself() -> None:
    case = DataflowCase(EXACT["mini_batch"], kills=2, hangs=1, cuts=1)
    assert run(case, 5, "repeats").case.log == run(case, 5, "repeats").case.log


@pytest.mark.parametrize("shape", ["chain", "windows", "bsp"])
def test_infinite_thresholds_demand_nothing(shape: str) -> None:
    """All of them: not a record. Theta alone: no backup of a state merely because it diverges."""
    infinite = APPROXIMATE | dict.fromkeys(("theta", "l", "gamma"), math.inf)
    simulation = run(DataflowCase(infinite, shape), FIRST, f"infinite and {shape}")
    assert not any(simulation.disk.values()) and not errors(simulation).any()
    run(DataflowCase(infinite, shape, kills=3), FIRST, f"infinite and {shape}")


@pytest.mark.parametrize("victims", ["b", "a", "abc"])
def test_after_a_rollback_a_source_reads_again_at_full_speed_what_it_had_read(
    victims: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All go back to the beginning, and a source that died is told by others. The control: nobody is left to tell."""
    monkeypatch.setattr(checkpointing, "PACE", replace(checkpointing.PACE, interval_s=60.0))
    case = DataflowCase(EXACT["barrier"], "chain", items=800, windows=24, disk_s=0.001, log=[])
    simulation, source = Paced(case, FIRST), WorkerId("a", 0)
    at: list[int] = []
    for moment in (0.5, 0.8):
        simulation.at(moment, lambda: at.append(simulation.nodes[source].task.epoch))
    for worker in [worker for worker in simulation.nodes if worker.stage in victims]:
        simulation.at(0.5, partial(simulation.kill, worker))
    run_or_replay(simulation, __file__, "full_speed")
    assert not errors(simulation).any()
    before, after = at
    assert before > 9 and (after >= before) == (victims != "abc")
