"""Single-source shortest paths: Bellman and Ford's method, where only vertices that have come nearer speak."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.operators.graphs.graph_loop import GraphLoop
from riprap.operators.iteration.supersteps import Messages, Spoken, Supersteps
from riprap.operators.options import Option, check


class ShortestPaths(GraphLoop):
    """The distance of each vertex from one of them; infinite where no path leads. Lengths must not be negative."""

    value = "distance"

    def __init__(
        self,
        source: Annotated[int, Option("The vertex that paths start from", unit="its number", low=0)] = 0,
        supersteps: Supersteps = 100_000,
    ) -> None:
        check(self, source=source, supersteps=supersteps)
        super().__init__(supersteps)
        self._source = source

    def begin(self) -> None:
        self.state.arrays["values"] = self.distances(self._source)

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """First, all speak who know of a path."""
        nearer = self.lower(messages) if number else np.isfinite(self.state.arrays["values"])
        return Spoken(self.along_edges(nearer, self.state.arrays["values"], lengthen=True))
