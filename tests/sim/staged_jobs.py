"""Jobs of Source, Processor and Sink in the simulation: operators in which every bit matters, cases, and their workers.

The tasks are those that workers run: adapters, and under schemes that spread blocks a coded stage between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dataflow_jobs
import numpy as np
from dataflow_simulator import DataflowCase, DataflowNode, DataflowSimulation, Ledger

from riprap.codec.ids import WorkerId
from riprap.configs.topology import Topology
from riprap.engine.flow.epoch_reader import EpochReader, RowsReader
from riprap.engine.flow.links import Window
from riprap.engine.flow.runs import Runs
from riprap.engine.flow.window_files import WindowFiles
from riprap.engine.spreads.trained_stage import TrainedStageTask
from riprap.engine.worker.build import Hosted, block_unit, hosting_task, row_of
from riprap.engine.worker.operators import graph_of_stages
from riprap.operators.adapters.stages import ProcessorStage, SinkStage, SourceStage
from riprap.operators.base import Processor, Sink

PRIME = 2**31 - 1


class NumberedRows:
    """What a source task reads: rows, and where they begin."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.items, self.item_bytes = rows, len(rows), float(rows[:1].nbytes)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return self.rows[start:stop], np.array([start, stop - start])


class Weigh(Processor):
    """An exact stand-in for a gradient: integers, and every bit of the state matters."""

    def __init__(self) -> None:
        self.state = 1

    def process_data(self, items: np.ndarray) -> list[np.ndarray]:
        return [np.array([float(int(items.sum()) * self.state % PRIME), float(len(items))])]

    def process_linear(self, items: np.ndarray) -> np.ndarray:
        return items * float(self.state % 97 + 1)

    def process_nonlinear(self, linear: np.ndarray, items: np.ndarray | None) -> list[np.ndarray]:
        """Rounding takes away what a code over the real numbers is off by."""
        return self.process_data(np.rint(linear))

    def process_feedback(self, feedback: Any) -> None:
        self.state = int(feedback[0][0])


class WeighLinearly(Weigh):
    """All but what its sink makes of the linear parts is linear."""

    is_linear = True


class Fold(Sink):
    """Sensitive to order, to repetition and to omission of results."""

    def __init__(self, processor: Weigh) -> None:
        self.state, self.items, self.processor = 1, 0, processor

    def aggregate(self, result: Any) -> None:
        self.state = (self.state * 31 + int(result[0][0])) % PRIME
        self.items += int(result[0][1])

    def commit(self, epoch: int) -> list[np.ndarray]:
        return [np.array([float(self.state)])]

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"all": np.array([self.state, self.items])}

    def restore(self, snapshot: Any) -> None:
        self.state, self.items = (int(value) for value in snapshot["all"])


@dataclass
class Case(DataflowCase):
    """One job of so many pairs of a source and a sink, and the faults that it has to live through."""

    processors: int = 6
    pairs: int = 1
    items: int = 1200
    """Of all pairs together."""
    micro_batch: int = 50
    block_bytes: int = 64
    window_epochs: int = 2
    faulty: tuple[str, ...] = ("processor",)
    kill_until_s: float = 0.18
    window: int = 256
    weigh: type[Weigh] = Weigh
    rows: int = 1
    """Stripe rows that are dealt as one."""
    kill_at_steps: tuple[tuple[int, str], ...] = ()
    """Workers to kill just before the nth event, whatever that is."""

    def __post_init__(self) -> None:
        self.shape = staged(self.pairs, self.processors)
        self.windows = -(-(self.items // self.pairs) // self.micro_batch)


def staged(pairs: int, processors: int) -> dict[str, Any]:
    """Sources, processors and sinks in a loop; the operators are named in the simulation itself."""
    stages = {"source": ("Spread", pairs, {}), "processor": ("Spread", processors, {}), "sink": ("Total", pairs, {})}
    edges = [{"from": "source", "to": "processor"}, {"from": "processor", "to": "sink"}]
    return dataflow_jobs._topology(stages, [*edges, {"from": "sink", "to": "processor", "feedback": True}])


class StagedSimulation(DataflowSimulation):
    """The same wires, stores and faults, with the workers of jobs of Source, Processor and Sink."""

    case: Case

    def shaped(self, topology: Topology) -> Topology:
        return graph_of_stages(topology)

    @property
    def processors(self) -> list[WorkerId]:
        return self.topology.tasks("processor")

    @property
    def items(self) -> int:
        return self.case.items

    def _rows(self, number: int) -> np.ndarray:
        share = self.case.items // self.case.pairs
        whole = np.random.default_rng(7).integers(1, 1000, (self.case.items, 1)).astype(float)
        return whole[number * share : (number + 1) * share]

    def make_task(self, node: DataflowNode) -> Runs:
        layout, me = self.layouts[node.me], node.me
        if coded := [segment for segment in layout.segments if segment.computes]:
            return TrainedStageTask(coded[0], node, 1, self.case.weigh)
        hosted = self.hosted(me.stage, me.index)
        files = WindowFiles(Path("/nonexistent"), me.index, type(hosted.operator))
        journal = Ledger(self.announced[me]) if layout.is_sink else None
        parts = (hosted, files, journal, node.is_first, self.items, Window(self.window))
        task = hosting_task(self.topology, layout, node, *parts)
        task.entries_max = 1  # so that faults come between any two
        return task

    @property
    def windows_read(self) -> int | None:
        """Windows of the input, where it has an end."""
        return self.case.windows

    def hosted(self, stage: str, index: int) -> Hosted:
        if stage == "source":
            case, me = self.case, WorkerId("source", index)
            rows, unit = NumberedRows(self.rows[me]), block_unit(self.topology)
            cut = (rows, self.windows_read, case.micro_batch, case.block_bytes, unit)
            if self.layouts[me].segments:
                return Hosted(SourceStage(None), RowsReader(*cut, row=row_of(self.topology) * case.rows), 1)
            reader = EpochReader(*cut)
            return Hosted(SourceStage(reader.turn), reader, 1)
        if stage == "processor":
            return Hosted(ProcessorStage(self.case.weigh, len(self.sinks)), None)
        return Hosted(SinkStage(Fold(self.case.weigh()), True, False), None, 1)

    def totals(self) -> np.ndarray:
        return np.array(self.states())

    def states(self) -> list[tuple[int, int]]:
        """What each sink has folded, and of how many items."""
        sinks = [self.nodes[sink].task.operator.sink for sink in self.sinks]
        return [(sink.state, sink.items) for sink in sinks]

    def step(self) -> None:
        self.steps += 1
        for step, name in self.case.kill_at_steps:
            if step == self.steps:
                self.kill(WorkerId.parse(name))
        super().step()

    steps = 0
