"""PageRank by the power method (Page et al. 1999), in supersteps."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.operators.graphs.graph_loop import GraphLoop
from riprap.operators.iteration.supersteps import NO_MESSAGES, Messages, Spoken, Supersteps
from riprap.operators.options import Option, check


class PageRank(GraphLoop):
    """The rank of each vertex; ranks add up to 1. A vertex without edges gives its rank to all vertices alike.

    Superstep 0 counts the vertices, superstep 1 sends the first ranks, and each further one is a step of the method.
    """

    value = "rank"

    def __init__(
        self,
        damping: Annotated[float, Option("The chance to follow an edge", low=0, high=1, below=True)] = 0.85,
        tolerance: Annotated[
            float, Option("The loop ends once a step changes the ranks by less, all together", low=0)
        ] = 1e-10,
        supersteps: Supersteps = 200,
    ) -> None:
        check(self, damping=damping, tolerance=tolerance, supersteps=supersteps)
        super().__init__(supersteps)
        self._damping, self._tolerance = damping, tolerance

    def begin(self) -> None:
        """The number of vertices, which first ranks depend on, is not known yet."""
        self.state.arrays["values"] = np.full(len(self.part.vertices), np.nan)

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Totals: vertices, rank at vertices without edges, and the change of all ranks (inf before the first)."""
        part, state = self.part, self.state
        count = len(part.vertices)
        if number == 0:
            return Spoken(NO_MESSAGES, np.array([count, 0.0, np.inf]))
        before, change = state.arrays["values"], np.inf
        if number == 1:
            values = np.where(np.isnan(before), 1.0 / totals[0], before)
        else:
            came = np.bincount(part.place(messages.keys), messages.values, count)[:count]
            values = (1 - self._damping + self._damping * totals[1]) / totals[0] + self._damping * came
            change = float(np.abs(values - before).sum())
        state.arrays["values"] = values
        degrees = np.bincount(part.starts, minlength=count)
        lost = values[degrees == 0].sum()
        told = self.along_edges(degrees > 0, values / np.maximum(degrees, 1))
        return Spoken(told, np.array([count, lost, change]))

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        return bool(totals[0] == 0 or totals[2] < self._tolerance)
