"""Runs a pipeline of dataflow operators in one process, stages times tasks, with backups and failures on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.keyed import shares
from riprap.operators.states.base import Backup

Make = Callable[[], DataflowOperator]


def input_items(epoch: int, *arrays: np.ndarray, count: int | None = None) -> Items:
    """A block of the job's input."""
    return Items(epoch, "", 0, len(arrays[0]) if count is None else count, arrays)


@dataclass
class Outbox:
    """What an operator sent, on its own; by key to so many tasks."""

    tasks: int = 1
    sent: list[tuple[list[np.ndarray], int, int | None, str | None]] = field(default_factory=list)
    fed_back: list[tuple[list[np.ndarray], int, int | None, str | None]] = field(default_factory=list)
    written: list[tuple[str, dict[str, np.ndarray]]] = field(default_factory=list)
    event_time: int | None = None
    promised: int | None = None
    idle_windows: int = 0

    def send(self, arrays: Any, count: int, to: int | None = None, stage: str | None = None) -> None:
        self.sent.append((list(arrays), count, to, stage))

    def send_by_key(self, keys: Any, columns: Any = (), stage: str | None = None) -> None:
        for share in shares(keys, columns, self.tasks):
            self.send(share.arrays, share.items, share.task, stage)

    def feed_back(self, arrays: Any, count: int = 1, to: int | None = None, stage: str | None = None) -> None:
        self.fed_back.append((list(arrays), count, to, stage))

    def write(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        self.written.append((name, arrays))

    def watermark(self, at: int) -> None:
        self.promised = at

    def idle(self) -> None:
        self.idle_windows += 1


@dataclass
class Task:
    """One task: its operator, its backups, and what it wrote."""

    make: Make
    context: Context
    theta: float
    operator: DataflowOperator = field(init=False)
    backups: list[Backup] = field(default_factory=list)
    out: Outbox = field(default_factory=Outbox)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.operator = self.make()
        self.operator.open(self.context)
        self.out.tasks = max(self.context.fan_out, 1)
        if self.operator.state is not None:
            self.operator.state.theta = self.theta

    def back_up(self) -> None:
        """As an engine does: a full backup replaces the earlier ones."""
        if self.operator.state is not None:
            backup = self.operator.state.backup_state()
            if backup.full:
                self.backups.clear()
            self.backups.append(backup)

    def process(self, items: Items, first: int = 0) -> None:
        """All of a block, with a backup wherever the operator stops."""
        items = self.operator.prepare(items)
        while first < items.count:
            left = self.operator.process_data(items, first, self.out)
            assert first < left <= items.count, "progress"
            state = self.operator.state
            assert left == items.count or (state is not None and state.exceeded), "stops only where a backup is due"
            if state is not None and state.exceeded:
                self.back_up()
            first = left

    def fail(self, theta: float | None = None, items: float = 0) -> None:
        """Die and come back with the last backups; then halve theta, as AF 3.5 does."""
        self.open()
        state = self.operator.state
        if state is not None:
            for backup in self.backups:
                state.recover_state(backup)
            assert state.state_divergence() == 0
            self.operator.recovered(self.theta if theta is None else theta, items)
            self.theta /= 2
            state.theta = self.theta
            self.back_up()


class Pipeline:
    """Two stages or more in a row. Windows are run one after the other, feedback is delivered at once."""

    def __init__(self, stages: Sequence[tuple[str, Make, int]], theta: float = np.inf, seed: int = 3) -> None:
        self.names = [name for name, _, _ in stages]
        self.stages: list[list[Task]] = []
        for number, (_, make, parallelism) in enumerate(stages):
            up = {stages[number - 1][0]: stages[number - 1][2]} if number else {}
            down = {stages[number + 1][0]: stages[number + 1][2]} if number + 1 < len(stages) else {}
            contexts = [
                Context(index=i, parallelism=parallelism, upstream=up, downstream=down, seed=seed)
                for i in range(parallelism)
            ]
            self.stages.append([Task(make, context, theta) for context in contexts])
        self.epoch = 0

    def task(self, stage: int, index: int = 0) -> Task:
        return self.stages[stage][index]

    def feed(self, index: int, *arrays: np.ndarray, count: int | None = None) -> None:
        """A block of input to a source, in the window that is open."""
        self.task(0, index).process(input_items(self.epoch + 1, *arrays, count=count))
        self._deliver(self.epoch + 1)

    def close(self) -> int:
        """Close the window in all stages; its number."""
        self.epoch += 1
        for stage in self.stages:
            for task in stage:
                task.operator.process_punctuation(self.epoch, task.out)
                if task.operator.state is not None and task.operator.state.cleared:
                    task.back_up()
            self._deliver(self.epoch)
        return self.epoch

    def _deliver(self, epoch: int) -> None:
        queue = deque((n, task) for n, stage in enumerate(self.stages) for task in stage)
        while queue:
            number, task = queue.popleft()
            sent, task.out.sent = task.out.sent, []
            back, task.out.fed_back = task.out.fed_back, []
            for messages, way in ((sent, 1), (back, -1)):
                for arrays, count, to, _ in messages:
                    self._hand(
                        number,
                        task,
                        way,
                        Items(epoch, self.names[number], task.context.index, count, tuple(arrays)),
                        to,
                    )
            if sent or back:
                queue.extend((n, task) for n, stage in enumerate(self.stages) for task in stage)

    def _hand(self, number: int, sender: Task, way: int, items: Items, to: int | None) -> None:
        receivers = self.stages[number + way]
        for array in items.arrays:
            array.flags.writeable = False
        for task in receivers if to is None else [receivers[to]]:
            if way > 0:
                task.process(items)
            else:
                task.operator.process_feedback(items, task.out)
