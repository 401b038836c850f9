"""The tasks of PPA's Figs. 6 to 8: a source that sends numbers, and merges that keep what came in the last windows."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Annotated

import numpy as np

from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.options import Option, check
from riprap.operators.states.base import Backup, State

DIGITS = 16
"""Of a line of the input, hexadecimal ones."""
WindowCount = Annotated[int, Option("Windows whose tuples are kept", low=1)]
Cost = Annotated[float, Option("Microseconds of the processor that a tuple takes", low=0.0)]


class Numbers(DataflowOperator):
    """Source: sends the number of each line."""

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        digits = items.arrays[0].reshape(items.count, DIGITS)
        values = np.where(digits < ord("a"), digits - ord("0"), digits - ord("a") + 10).astype(np.int64)
        numbers = (values[:, 1:] << (4 * np.arange(DIGITS - 1)[::-1])).sum(axis=1)
        out.send((numbers,), items.count)
        return items.count


class LastWindows(State):
    """The tuples of the last windows, one array each, and of the one that is under way; saved whole."""

    def __init__(self, windows: int) -> None:
        self.windows: deque[np.ndarray] = deque([np.zeros(0, np.int64)], windows)

    def add(self, tuples: np.ndarray) -> None:
        """Of the window under way."""
        self.windows[-1] = np.concatenate([self.windows[-1], tuples])

    def roll(self) -> None:
        """The window has ended; the oldest goes."""
        self.windows.append(np.zeros(0, np.int64))

    def state_divergence(self) -> float:
        return math.inf

    def backup_state(self) -> Backup:
        return Backup(True, (np.array([*map(len, self.windows)]), np.concatenate([*self.windows])))

    def recover_state(self, backup: Backup) -> None:
        lengths, tuples = backup.arrays
        self.windows.clear()
        self.windows.extend(np.split(tuples.copy(), np.cumsum(lengths)[:-1]))


class WindowMerge(DataflowOperator):
    """Keeps the tuples of the last windows, and hands every second one on: the even ones, halved."""

    def __init__(self, windows: WindowCount = 10, cost_us: Cost = 0.0) -> None:
        check(self, windows=windows, cost_us=cost_us)
        self._cost_s = cost_us * 1e-6
        self.state: LastWindows = LastWindows(windows)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        tuples = items.arrays[0][first:]
        until = time.thread_time() + len(tuples) * self._cost_s
        self.state.add(tuples)
        chosen = tuples[tuples % 2 == 0] >> 1
        while time.thread_time() < until:
            pass
        out.send((chosen,), len(chosen))
        return items.count

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.roll()


class Summed(DataflowOperator):
    """Destination: counts tuples and adds them up, modulo 2**63."""

    def __init__(self) -> None:
        self.state: LastWindows = LastWindows(1)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        tuples = items.arrays[0][first:]
        before = self.state.windows[-1]
        count, total = before.tolist() if len(before) else (0, 0)
        self.state.windows[-1] = np.array([count + len(tuples), (total + int(tuples.sum())) % 2**63])
        return items.count

    def results(self) -> dict[str, np.ndarray]:
        """`sums`: the number of tuples, and their sum."""
        return {"sums": self.state.windows[-1].copy()}
