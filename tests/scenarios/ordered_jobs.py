"""The common parts of jobs whose results tell in which order blocks were taken: a slow source, sums, their input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cli_harness import change_rows, write_shards

ROWS, REPEAT, KEYS = 4_000, 5, 7
ENDS = """\
import time

import numpy as np

import riprap
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import NO_MESSAGES, Iteration, Messages, Spoken
from riprap.operators.states import Vector


class SlowRead(riprap.DataflowOperator):
    '''Hands 4,000 items a second on.'''

    def process_data(self, items, first, out):
        time.sleep(items.count / 4_000)
        out.send(items.arrays, items.count)
        return items.count


class Totals(riprap.DataflowOperator):
    '''The sum of each key.'''

    def __init__(self):
        self.state = Vector(7)

    def process_data(self, items, first, out):
        rows = items.arrays[0]
        self.state.add(rows[:, 0].astype(int), rows[:, 1])
        return items.count

    def results(self):
        return {"totals": self.state.values.copy()}
"""
"""The module of a job's operators begins with its source and its destination."""

CHAINED = (
    ENDS
    + """

class Chained(riprap.DataflowOperator):
    '''Hands items on, and with each block a sum that depends on the order of all blocks so far, and of feedback.'''

    def __init__(self):
        self.state = Vector(1)

    def process_data(self, items, first, out):
        rows = items.arrays[0]
        then = self.link(int(rows[:, 1].sum()) + items.task)
        out.send((np.vstack([rows, [[6, then, 0]]]),), items.count + 1)
        return items.count

    def process_feedback(self, items, out):
        self.link(int(items.arrays[0][0]))

    def link(self, weight):
        now = int(self.state.values[0])
        then = (now * 31 + weight + 1) % 1_000_003
        self.state.add(np.array([0]), np.array([then - now], dtype=float))
        return then


class Passed(riprap.DataflowOperator):
    '''Hands items on.'''

    def process_data(self, items, first, out):
        out.send(items.arrays, items.count)
        return items.count


class Rows(Totals):
    '''The sums so far, after each window.'''

    def outputs(self):
        return self.state.values.reshape(1, 7).copy()


class Returned(Rows):
    '''The same, and feeds back what all sums come to, after each block and each window.'''

    def process_data(self, items, first, out):
        super().process_data(items, first, out)
        out.feed_back((self.state.values.sum(keepdims=True),))
        return items.count

    def process_punctuation(self, epoch, out):
        out.feed_back((self.state.values.sum(keepdims=True) + epoch,))


class Circled(Iteration):
    '''The sum of each key of a window, which a loop has carried around all keys.'''

    def __init__(self):
        super().__init__(8)
        self.state = LoopState(3, sums=np.zeros(7))

    def begin(self):
        rows, self.state.rows = self.state.rows, np.zeros((0, 3))
        self.state.arrays["sums"] = np.bincount(rows[:, 0].astype(int), rows[:, 1], 7)

    def superstep(self, number, messages, totals):
        if number:
            self.state.arrays["sums"] = np.bincount(messages.keys, messages.values, 7)
        if number == 7:
            return Spoken(NO_MESSAGES)
        return Spoken(Messages((np.arange(7) + 1) % 7, self.state.arrays["sums"]))

    def answer(self):
        return np.arange(7), self.state.arrays["sums"]


class CircledRows(Rows):
    '''Rows of what a loop has found.'''

    def process_data(self, items, first, out):
        self.state.add(*items.arrays)
        return items.count
"""
)
"""And what is between them, whose sums depend on the order of all blocks."""


def write_keyed_shards(directory: Path) -> None:
    """`shards` of keys and values, the same each time."""
    write_shards(directory / "shards", ROWS, (1.0, 1.0))
    numbers = np.random.default_rng(9)

    def fill(rows: np.ndarray) -> None:
        rows[:, 0], rows[:, 1] = numbers.integers(0, KEYS, len(rows)), numbers.integers(1, 1000, len(rows))

    change_rows(directory / "shards", fill)
