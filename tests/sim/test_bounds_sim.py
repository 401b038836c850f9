"""The bounds of AF 3.5, each on its own: lost output <= Gamma + L beta, divergence <= Theta + L alpha.

One, several or all workers die, once or up to ten times, as one of 1 to 4 copies; every item has an identity, so that
what is lost is known exactly. `RIPRAP_SIM_SEEDS` sets how many seeds each case gets; a failure prints what replays it.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from bounds_jobs import into, through
from dataflow_jobs import KEYS
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, run_or_replay

from codec.ids import WorkerId
from engine.dataflow.entry import Entry
from engine.dataflow.task import DataflowTask

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
COPIES, BETAS = (1, 2, 3, 4), (1, 2)
WINDOW_EPOCHS = 2
THETA, L, GAMMA, ALPHA = 60.0, 32.0, 32.0, 3.0
FAULTS: dict[str, dict[str, Any]] = {
    "one": {"kills": 1},
    "several": {"kills": 2, "kill_at_once": 3},
    "everybody": {"kills": 2, "kill_at_once": 99},
    "ten": {"kills": 10, "restart_s": 0.01, "kill_until_s": 0.3},
    "cuts": {"cuts": 4, "hangs": 2, "kills": 3},
}
SLOW: dict[str, Any] = {"wire_s": 0.01, "restart_s": 0.01}


def options(scheme: str = "approximate", **more: Any) -> dict[str, Any]:
    """A fault tolerance with the user's thresholds of this module."""
    plain = {"scheme": scheme, "theta": THETA, "l": L, "gamma": GAMMA, "beta": 1.0, "window": "none"}
    return plain | {"window_epochs": 1} | more


class Numbered(DataflowSimulation):
    """Items are numbered; notes which of what the middle stage puts out comes, and which is delivered."""

    failures = 0
    """So many times a worker of the middle stage dies, evenly over what it puts out."""

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.arrived: set[int] = set()
        self.delivered: set[int] = set()
        super().__init__(case, seed)

    def _fail_in_time(self) -> None:
        whole = self.items * self.topology.stages["b"].options["beta"]
        if len(self.arrived) > whole * (len(self.killed) + 1) / (self.failures + 2):
            victim = self.rng.choice([worker for worker in self.nodes if worker.stage == "b"])
            self.kill(victim)

    def _rows(self, number: int) -> np.ndarray:
        rng = np.random.default_rng(number)
        keys = rng.integers(0, KEYS, self.case.items)
        return np.column_stack([keys, number * self.case.items + np.arange(self.case.items)]).astype(float)

    def make_task(self, node: DataflowNode) -> DataflowTask:
        task = super().make_task(node)
        if node.me.stage == "c":
            task.operator.delivered = self.delivered
            take = task._take

            def note(entry: Entry) -> None:
                if entry.block.items:
                    self.arrived.update(entry.block.arrays[0][:, 1].astype(int).tolist())
                    if len(self.killed) < self.failures:
                        self._fail_in_time()
                take(entry)

            task._take = note
        return task

    def totals(self) -> np.ndarray:
        return np.zeros(0)


def simulate(kind: type[DataflowSimulation], case: DataflowCase, seed: int, replay: str) -> Any:
    """One simulation to its end; a failure names what replays it."""
    simulation = kind(replace(case, log=[]), seed)
    run_or_replay(simulation, __file__, replay)
    return simulation


@dataclass
class Lost:
    """Output items of the middle stage that never came, those that came and were not delivered, and deaths."""

    output: int
    delivered: int
    deaths: Counter[str]


def losses(
    fault_tolerance: dict[str, Any], copies: int, beta: int, fault: str, seed: int, destinations: int = 1, **more: Any
) -> Lost:
    """What a run loses, item by item."""
    faults = FAULTS[fault] | more
    case = DataflowCase(fault_tolerance | {"beta": float(beta)}, through(copies, beta, destinations), **faults)
    simulation = simulate(Numbered, case, seed, f"output and {fault}-{beta}-{copies}")
    count = simulation.items * beta
    assert simulation.arrived <= set(range(count)), "nothing is made up"
    deaths = Counter(worker.stage for worker in simulation.killed)
    return Lost(count - len(simulation.arrived), len(simulation.arrived - simulation.delivered), deaths)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("copies", COPIES)
def test_lost_output_stays_below_gamma_and_l_beta(copies: int, beta: int, fault: str) -> None:
    """3.5.1 to 3.5.3, for the operator in the middle: what it puts out and nobody ever gets."""
    for seed in range(FIRST, FIRST + SEEDS):
        lost = losses(options(), copies, beta, fault, seed, 1 + copies % 2, faulty=("b",) if seed % 2 else ())
        assert lost.output <= GAMMA + L * beta, f"seed {seed}: {lost}"
        assert lost.delivered <= (L if lost.deaths["c"] else 0), f"seed {seed}: {lost}"
        assert lost.output == 0 or lost.deaths["b"], f"seed {seed}: nobody else may lose it: {lost}"


def test_something_is_lost_or_these_tests_show_nothing() -> None:
    found = [losses(options(), 1, 1, "several", seed, faulty=("b",)) for seed in range(6)]
    assert sum(lost.output > 0 for lost in found) > 1
    unprotected = [losses(options("none"), 1, 1, "ten", seed, faulty=("b",)) for seed in range(3)]
    assert max(lost.output for lost in unprotected) > GAMMA + L, "what the scheme is there for"


def test_failures_in_one_window_are_counted() -> None:
    """Independent of their number (3.5.2), also when a life ends before it has saved anything."""
    for seed in range(20):
        lost = losses(options(), 1, 1, "ten", seed, faulty=("b",), windows=1, restart_s=0.005)
        assert lost.output <= GAMMA + L, f"seed {seed}: {lost}"


@pytest.mark.parametrize("failures", [1, 5, 10])
@pytest.mark.parametrize(("copies", "beta"), [(1, 1), (1, 2), (3, 1)])
def test_lost_output_does_not_depend_on_the_number_of_failures(copies: int, beta: int, failures: int) -> None:
    """The k-th failure comes when a k-th of the stream has arrived, on slow wires that are always full."""

    class Failing(Numbered):
        pass

    Failing.failures = failures
    case = DataflowCase(options(beta=float(beta)), through(copies, beta, 1), 400, 8, **SLOW)
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = simulate(Failing, case, seed, f"number and {failures}-{copies}-{beta}")
        assert len(simulation.killed) == failures
        lost = simulation.items * beta - len(simulation.arrived)
        assert lost <= GAMMA + L * beta, f"seed {seed}: {lost} lost"


class Summed(DataflowSimulation):
    """Notes the windows in which destinations died, and those from which they went on."""

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.touched: dict[WorkerId, set[int]] = defaultdict(set)
        super().__init__(case, seed)

    def kill(self, worker: WorkerId) -> None:
        self.touched[worker].add(self.nodes[worker].task.epoch)
        super().kill(worker)

    def restart(self, worker: WorkerId, life: int) -> None:
        super().restart(worker, life)
        self.touched[worker].add(self.nodes[worker].task.epoch)


def divergence(window: str, copies: int, fault: str, seed: int) -> tuple[float, int, int]:
    """How far all sums are off, in how many stretches of WINDOW_EPOCHS windows destinations died, and their deaths."""
    case = DataflowCase(
        options(window=window, window_epochs=WINDOW_EPOCHS), into(copies), 400, 8, heavy=False, **FAULTS[fault]
    )
    simulation = simulate(Summed, case, seed, f"divergence and {fault}-{copies}-{window}")
    off = simulation.totals() - simulation.truth_of_keys()
    assert (off <= 0).all(), f"seed {seed}: nothing is counted twice: {off}"
    sinks = [worker for worker in simulation.killed if worker.stage == "b"]
    stretches = {epoch // WINDOW_EPOCHS for worker in set(sinks) for epoch in simulation.touched[worker]}
    return -off.sum(), len(stretches), len(sinks)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("window", "copies"), [*(("none", n) for n in COPIES), ("hopping", 2), ("sliding", 2), ("decaying", 2)]
)
def test_divergence_stays_below_theta_and_l_alpha(window: str, copies: int, fault: str) -> None:
    """3.5.2: in the whole stream, in a hopping or sliding window, or for each failure of a decaying one.

    The two items of a death that cross the two parts of theta may overshoot by alpha each.
    """
    for seed in range(FIRST, FIRST + SEEDS):
        off, stretches, deaths = divergence(window, copies, fault, seed)
        times = {"none": min(deaths, 1), "decaying": deaths}.get(window, stretches)
        assert off <= (THETA + L * ALPHA) * times + 2 * ALPHA * deaths, f"seed {seed}: {off} after {deaths} deaths"
