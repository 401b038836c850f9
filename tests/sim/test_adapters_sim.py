"""Jobs that train, run by the adapters of Source, Processor and Sink, under random kills, hangs and lost connections.

`RIPRAP_SIM_SEEDS` sets how many seeds each case gets. A failure prints its seed and the command that replays it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import dataflow_jobs
import numpy as np
import pytest
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, Ledger, run_or_replay
from simulator import Fold, NumberedRows, Weigh
from test_dataflow_sim import APPROXIMATE, EXACT, FAULTS

from riprap.engine.flow.epoch_reader import EpochReader
from riprap.engine.flow.links import Window
from riprap.engine.flow.task import DataflowTask
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.worker.build import Hosted, hosting_task
from riprap.operators.adapters.stages import ProcessorStage, SinkStage, SourceStage

SEEDS = int(os.environ.get("RIPRAP_SIM_SEEDS", "2"))
FIRST = int(os.environ.get("RIPRAP_SIM_FIRST", "0"))
PROCESSORS, MICRO_BATCH, EPOCHS = 3, 40, 4
ITEMS = MICRO_BATCH * EPOCHS - 7


def staged(pairs: int) -> dict[str, object]:
    """Sources, processors and sinks in a loop; the operators are named in the simulation itself."""
    stages = {"source": ("Spread", pairs, {}), "processor": ("Spread", PROCESSORS, {}), "sink": ("Total", pairs, {})}
    edges = [{"from": "source", "to": "processor"}, {"from": "processor", "to": "sink"}]
    return dataflow_jobs._topology(stages, [*edges, {"from": "sink", "to": "processor", "feedback": True}])


def rows_of(seed: int) -> NumberedRows:
    """Whole numbers."""
    return NumberedRows(np.random.default_rng(seed).integers(1, 1000, (ITEMS, 1)).astype(float))


class StagedSimulation(DataflowSimulation):
    """The same wires, stores and faults, with adapters in the tasks."""

    def make_task(self, node: DataflowNode) -> DataflowTask:
        layout, me = self.layouts[node.me], node.me
        hosted = self.hosted(me.stage, me.index)
        files = WindowFiles(Path("/nonexistent"), me.index, type(hosted.operator))
        journal = Ledger(self.announced[me]) if layout.is_sink else None
        parts = (hosted, files, journal, node.is_first, self.items, Window(self.window))
        return hosting_task(self.topology, layout, node, *parts)

    def hosted(self, stage: str, index: int) -> Hosted:
        if stage == "source":
            reader = EpochReader(rows_of(index), EPOCHS, MICRO_BATCH, 64, PROCESSORS)
            return Hosted(SourceStage(reader.turn), reader)
        if stage == "processor":
            return Hosted(ProcessorStage(Weigh, len(self.sinks)), None)
        return Hosted(SinkStage(Fold(Weigh()), True, False), None)

    def totals(self) -> np.ndarray:
        """What all sinks have folded, together."""
        return np.array(self.states())

    def states(self) -> list[tuple[int, int]]:
        """What each sink has folded, and of how many items."""
        sinks = [self.nodes[sink].task.operator.sink for sink in self.sinks]
        return [(sink.state, sink.items) for sink in sinks]


def run(case: DataflowCase, seed: int, replay: str) -> StagedSimulation:
    """One simulation; a failure names what replays it."""
    simulation = StagedSimulation(replace(case, log=[]), seed)
    run_or_replay(simulation, __file__, replay)
    for sink, announced in simulation.announced.items():
        assert [epoch for epoch, _ in announced] == list(range(1, EPOCHS + 1)), f"seed {seed}: {sink}"
    return simulation


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scheme", EXACT)
def test_exact_schemes_fold_what_an_undisturbed_run_folds(scheme: str, fault: str, pairs: int) -> None:
    """Order, repetition and omission of any result would show, and so would one under another epoch's model."""
    calm = run(DataflowCase({"scheme": "none"}, staged(pairs), ITEMS), FIRST, "calm").states()
    assert [items for _, items in calm] == [ITEMS] * pairs
    case = DataflowCase(EXACT[scheme], staged(pairs), ITEMS, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        assert run(case, seed, f"{scheme}-{fault}-{pairs}").states() == calm, f"seed {seed}"


@pytest.mark.parametrize("fault", FAULTS)
def test_the_approximate_scheme_folds_no_result_twice(fault: str) -> None:
    """Items may be lost with a death, within the bounds; none is folded once more."""
    case = DataflowCase({**APPROXIMATE, "l": 4.0}, staged(1), ITEMS, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        ((_, items),) = run(case, seed, f"approximate and {fault}").states()
        assert items <= ITEMS, f"seed {seed}"


@pytest.mark.parametrize("fault", FAULTS)
def test_with_no_loss_allowed_the_approximate_scheme_is_exact(fault: str) -> None:
    calm = run(DataflowCase({"scheme": "none"}, staged(1), ITEMS), FIRST, "calm").states()
    case = DataflowCase({**APPROXIMATE, "theta": 0.0, "l": 0.0, "gamma": 1.0}, staged(1), ITEMS, **FAULTS[fault])
    for seed in range(FIRST, FIRST + SEEDS):
        assert run(case, seed, f"no_loss and {fault}").states() == calm, f"seed {seed}"
