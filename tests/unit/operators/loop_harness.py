"""Runs the tasks of one stage that iterates, with blocks in a random order, and deaths on demand."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import numpy as np

from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Items
from tests.unit.operators.dataflow_harness import Task


class Ring:
    """The tasks of one stage with a loop; blocks are delivered in a random order, in order from task to task."""

    def __init__(self, make: Callable[[], DataflowOperator], tasks: int, seed: int, deaths: bool = False) -> None:
        self.tasks = [Task(make, Context(index=i, parallelism=tasks), np.inf) for i in range(tasks)]
        self.links = {(i, j): deque[Items]() for i in range(tasks) for j in range(tasks)}
        self.random, self.deaths, self.blocks, self.messages = random.Random(seed), deaths, 0, 0

    def loop(self, epoch: int) -> None:
        """Close a window in all tasks, which ends its loop."""
        waiting = list(range(len(self.tasks)))
        self.random.shuffle(waiting)
        while waiting or any(self.links.values()):
            busy = [key for key, link in self.links.items() if link]
            if waiting and (not busy or self.random.random() < 0.3):
                self._closed(waiting.pop(), epoch)
            else:
                sender, to = self.random.choice(busy)
                block = self.links[sender, to].popleft()
                self.tasks[to].operator.process_feedback(block, self.tasks[to].out)
                self._after(to, epoch)
        assert not any(task.operator.iterating for task in self.tasks)

    def _closed(self, index: int, epoch: int) -> None:
        self.tasks[index].operator.process_punctuation(epoch, self.tasks[index].out)
        self._after(index, epoch)

    def _after(self, index: int, epoch: int) -> None:
        task = self.tasks[index]
        for arrays, count, to, _ in task.out.fed_back:
            assert to is not None and to != index
            self.links[index, to].append(Items(epoch, "loop", index, count, tuple(arrays)))
            self.blocks, self.messages = self.blocks + 1, self.messages + count
        task.out.fed_back.clear()
        if self.deaths and self.random.random() < 0.2:
            task.back_up()
            task.fail()

    def values(self) -> np.ndarray:
        """The value of each vertex."""
        found = [task.operator.results() for task in self.tasks]
        vertices, values = (np.concatenate([one[name] for one in found]) for name in ("vertices", "values"))
        assert (np.sort(vertices) == np.unique(vertices)).all(), "each vertex has one task"
        return values[np.argsort(vertices)]
