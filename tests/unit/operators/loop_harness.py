"""Runs the tasks of one stage that iterates, with blocks in a random order, and with faults on demand."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import numpy as np

from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Items
from riprap.operators.iteration.supersteps import Iteration
from riprap.operators.states.base import Backup
from tests.unit.operators.dataflow_harness import Task

FAULTS = ("", "deaths", "rollbacks")
"""Nothing; tasks that go on from what they saved last; a task that is lost within the loop, which begins once more."""
ROLLBACKS = 3


class Ring:
    """The tasks of one stage with a loop; blocks are delivered in a random order, in order from task to task."""

    def __init__(self, make: Callable[[], DataflowOperator], tasks: int, seed: int, fault: str = "") -> None:
        assert fault in FAULTS
        self.tasks = [Task(make, Context(index=i, parallelism=tasks), np.inf) for i in range(tasks)]
        self.links = {(i, j): deque[Items]() for i in range(tasks) for j in range(tasks)}
        self.random, self.fault, self.blocks, self.messages = random.Random(seed), fault, 0, 0
        self.compensated: list[tuple[int, int]] = []
        """By task, when a loop has ended that was begun once more."""

    def loop(self, epoch: int) -> None:
        """Close a window in all tasks, which ends its loop."""
        waiting = list(range(len(self.tasks)))
        self.random.shuffle(waiting)
        before = self._saved()
        left = ROLLBACKS if self.fault == "rollbacks" else 0
        while waiting or any(self.links.values()) or left:
            if left and not waiting and (self.random.random() < 0.1 or not any(self.links.values())):
                left -= 1
                waiting = self._roll_back(before)
                continue
            busy = [key for key, link in self.links.items() if link]
            if waiting and (not busy or self.random.random() < 0.3):
                self._closed(waiting.pop(), epoch)
            else:
                sender, to = self.random.choice(busy)
                block = self.links[sender, to].popleft()
                self.tasks[to].operator.process_feedback(block, self.tasks[to].out)
                self._after(to, epoch)
        assert not any(task.operator.iterating for task in self.tasks)
        self.compensated = [task.operator.compensated for task in self.tasks if isinstance(task.operator, Iteration)]
        if self.fault == "rollbacks" and len(self.tasks) > 1:
            assert {window for window, _ in self.compensated} == {epoch} and len(set(self.compensated)) == 1

    def _saved(self) -> list[Backup]:
        """All tasks' states before the loop, as a checkpoint has them."""
        states = [task.operator.state for task in self.tasks]
        return [state.backup_state() for state in states if state is not None]

    def _roll_back(self, saved: list[Backup]) -> list[int]:
        """One task is lost; the others hand what they had found to those that begin anew. All close the window."""
        lost = self.random.randrange(len(self.tasks))
        for link in self.links.values():
            link.clear()
        for index, (task, backup) in enumerate(zip(self.tasks, saved, strict=True)):
            assert isinstance(task.operator, Iteration)
            found = task.operator.reached
            task.open()
            task.operator.state.recover_state(backup)
            task.operator.go_on_from(None if index == lost else found)
        return self.random.sample(range(len(self.tasks)), len(self.tasks))

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
        if self.fault == "deaths" and self.random.random() < 0.2:
            task.back_up()
            task.fail()

    def values(self) -> np.ndarray:
        """The value of each vertex."""
        found = [task.operator.results() for task in self.tasks]
        vertices, values = (np.concatenate([one[name] for one in found]) for name in ("vertices", "values"))
        assert (np.sort(vertices) == np.unique(vertices)).all(), "each vertex has one task"
        return values[np.argsort(vertices)]
