"""The bounds of AF 3.5, each on its own: lost output <= Gamma + L beta, divergence <= Theta + L alpha.

One, several or all workers die, once or up to ten times, as one of 1 to 4 copies; every item has an identity, so that
what is lost is known exactly. `RIPRAP_SIM_SEEDS` sets how many seeds each case gets; a failure prints what replays it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from bounds_jobs import FACTOR, into, recent, through
from dataflow_jobs import KEYS
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, run_or_replay
from pairs import chosen

from riprap.codec.ids import WorkerId
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.task import Task

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

    def make_task(self, node: DataflowNode) -> Task:
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


CASES = [
    (int(copies), int(beta), fault)
    for copies, beta, fault in chosen(list(product(map(str, COPIES), map(str, BETAS), FAULTS)))
]


@pytest.mark.parametrize(("copies", "beta", "fault"), CASES)
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
    unprotected = [losses(options("none"), 1, 1, "ten", seed, faulty=("b",)) for seed in range(8)]
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


def divergence(copies: int, fault: str, seed: int) -> tuple[float, int]:
    """How far all sums of the stream are off, and how often destinations died."""
    case = DataflowCase(options(), into(copies), 400, 8, heavy=False, **FAULTS[fault])
    simulation = simulate(DataflowSimulation, case, seed, f"divergence and {fault}-{copies}")
    off = simulation.totals() - simulation.truth_of_keys()
    assert (off <= 0).all(), f"seed {seed}: nothing is counted twice: {off}"
    return -off.sum(), sum(worker.stage == "b" for worker in simulation.killed)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("copies", COPIES)
def test_divergence_stays_below_theta_and_l_alpha(copies: int, fault: str) -> None:
    """3.5.2. The two items of a death that cross the two parts of theta may overshoot by alpha each."""
    for seed in range(FIRST, FIRST + SEEDS):
        off, deaths = divergence(copies, fault, seed)
        assert off <= (THETA + L * ALPHA) * min(deaths, 1) + 2 * ALPHA * deaths, f"seed {seed}: {off}, {deaths} deaths"


class InWindows(DataflowSimulation):
    """Notes what each destination holds as it closes a window, in its newest life."""

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.held: dict[tuple[WorkerId, int], np.ndarray] = {}
        super().__init__(case, seed)

    def make_task(self, node: DataflowNode) -> Task:
        task = super().make_task(node)
        if node.me in self.sinks:
            close = task.operator.process_punctuation

            def noted(epoch: int, out: Any) -> None:
                close(epoch, out)
                self.held[node.me, epoch] = task.operator.state.content().values.copy()

            task.operator.process_punctuation = noted
        return task

    def totals(self) -> np.ndarray:
        return np.zeros(0)

    def truth_of(self, epoch: int, weight: Callable[[int], float]) -> np.ndarray:
        """The sum of each key, items counting by the window that they are in."""
        whole = np.zeros(KEYS)
        for rows in self.rows.values():
            windows = np.arange(len(rows)) * self.case.windows // len(rows) + 1
            kept = windows <= epoch
            np.add.at(whole, rows[kept, 0].astype(int), rows[kept, 1] * np.array([weight(w) for w in windows[kept]]))
        return whole


def weights(window: str, epoch: int) -> Callable[[int], float]:
    """What items of a window count when `epoch` is closed."""
    if window == "decaying":
        return lambda other: FACTOR ** (epoch - other)
    first = epoch - WINDOW_EPOCHS + 1 if window == "sliding" else (epoch - 1) // WINDOW_EPOCHS * WINDOW_EPOCHS + 1
    return lambda other: float(other >= first)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("window", ["hopping", "sliding", "decaying"])
def test_each_window_stays_below_theta_and_l_alpha(window: str, fault: str) -> None:
    """3.5.2: a window lacks no more than a whole stream without windows may, although thresholds are raised again. Of a
    decaying state each failure may take as much, which then fades; so few that are near count."""
    more = {"window": window, "window_epochs": WINDOW_EPOCHS}
    case = DataflowCase(options(**more), recent(2, window, WINDOW_EPOCHS), 400, 8, heavy=False, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = simulate(InWindows, case, seed, f"each_window and {window}-{fault}")
        deaths = sum(worker.stage == "b" for worker in simulation.killed)
        times = deaths if window == "decaying" else min(deaths, 1)
        for epoch in range(1, case.windows + 1):
            held = sum(simulation.held[sink, epoch] for sink in simulation.sinks)
            off = (simulation.truth_of(epoch, weights(window, epoch)) - held).sum()
            assert off <= (THETA + L * ALPHA) * times + 2 * ALPHA * deaths, f"seed {seed}, window {epoch}: {off}"
        if not deaths:
            assert abs(off) < 1e-6, f"seed {seed}: {off}"


class Worst(DataflowSimulation):
    """The destination dies whenever so much of what it has done is not durable as a first failure may just take."""

    failures, part = 0, 0.4

    def __init__(self, case: DataflowCase, seed: int) -> None:
        self.durable_sum, self.known, self.calm = 0.0, False, False
        super().__init__(case, seed)

    def make_task(self, node: DataflowNode) -> Task:
        task = super().make_task(node)
        if node.me in self.sinks:
            self.known = self.calm = False
            sums, save, confirm = dict[int, float](), node.save, node.confirm

            def saving(*record: Any) -> int:
                number = save(*record)
                sums[number] = task.operator.state.values.sum()
                return number

            def confirming(number: int) -> None:
                self.durable_sum = max((sums[n] for n in sums if 0 < n <= number), default=0.0)
                confirm(number)
                self.known = True  # a life that has nothing durable may lose nothing

            node.save, node.confirm = saving, confirming
        return task

    def carry(self, *arguments: Any) -> None:
        super().carry(*arguments)
        (sink,) = self.sinks
        node = self.nodes[sink]
        unsaved = node.task.operator.state.values.sum() - self.durable_sum
        dangerous = unsaved >= self.part * self.topology.fault_tolerance["theta"]
        self.calm = self.calm or (self.known and not dangerous)
        if self.calm and dangerous and node.alive and len(self.killed) < self.failures:
            self.calm = False
            self.at(2 * self.case.wire_s, lambda: self.kill(sink))  # when acknowledgements have arrived


@pytest.mark.parametrize("failures", [1, 4, 8])
def test_failures_at_the_worst_moments_cost_no_more_than_one(failures: int) -> None:
    """3.5.2: each has half of what the one before had. Without that each would take its 0.4 Theta."""

    class Failing(Worst):
        pass

    Failing.failures, theta = failures, 600.0
    case = DataflowCase(options(l=0.0, theta=theta), into(1), 3000, 4, heavy=False, disk_s=0.2, restart_s=0.01)
    for seed in range(FIRST, FIRST + SEEDS):
        simulation = simulate(Failing, case, seed, f"worst and {failures}")
        off = (simulation.truth_of_keys() - simulation.totals()).sum()
        assert len(simulation.killed) == failures, f"seed {seed}: {len(simulation.killed)} deaths"
        assert 0.15 * theta <= off <= theta + 2 * ALPHA * failures, f"seed {seed}: {off}"
