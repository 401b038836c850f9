"""A loop within a loop: each step of the outer loop runs the inner one to its end, in supersteps of all tasks."""

from __future__ import annotations

import numpy as np

from riprap.operators.base import Context
from riprap.operators.iteration.supersteps import Iteration, Messages, Spoken


class NestedIteration(Iteration):
    """Base of operators whose loop has a loop in it. The place in both, (outer, inner), is part of the state.

    A subclass defines `outer_step`, `inner_step` and `outer_finished`, and `inner_finished` where the inner loop ends
    otherwise than when nothing is fed back. `supersteps` counts those of both loops together.
    """

    def open(self, context: Context) -> None:
        super().open(context)
        self.state.arrays["place"] = np.zeros(2, np.int64)

    # what a subclass defines
    def outer_step(self, outer: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """A step of the outer loop: what the inner loop begins with. It gets what the inner loop before it ended with.

        `outer` counts from 0 in each window, whose first step gets nothing.
        """
        raise NotImplementedError

    def inner_step(self, inner: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """A step of the inner loop, counted from 1 in each step of the outer one."""
        raise NotImplementedError

    def inner_finished(self, fed: int, totals: np.ndarray) -> bool:
        """True when the inner loop ends; asked after each superstep, of the outer loop too."""
        return fed == 0

    def outer_finished(self, outer: int, totals: np.ndarray) -> bool:
        """True when all is done; asked when the inner loop of step `outer` has ended, with its last totals."""
        raise NotImplementedError

    # the loops
    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        if number == 0:
            self._go_to(0, 0)
        outer, inner = self.state.arrays["place"].tolist()
        if inner == 0:
            return self.outer_step(outer, messages, totals)
        return self.inner_step(inner, messages, totals)

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        """All tasks are asked the same and go to the same place."""
        outer, inner = self.state.arrays["place"].tolist()
        if not self.inner_finished(fed, totals):
            self._go_to(outer, inner + 1)
            return False
        self._go_to(outer + 1, 0)
        return self.outer_finished(outer, totals)

    def _go_to(self, outer: int, inner: int) -> None:
        self.state.arrays["place"] = np.array([outer, inner])
