"""Connected components: each vertex takes the least number that reaches it."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.operators.graphs.graph_loop import GraphLoop
from riprap.operators.iteration.supersteps import Messages, Spoken, Supersteps
from riprap.operators.options import Option, check


class ConnectedComponents(GraphLoop):
    """The least vertex of each vertex's component. The edges must come both ways (`undirected` of ReadEdges).

    With `delta` only vertices whose number has changed tell their neighbours (the workset of a delta iteration);
    without, all do in every superstep. The loop ends when nothing has changed.
    """

    value = "component"

    def __init__(
        self,
        delta: Annotated[bool, Option("Only vertices that have changed speak; else all")] = True,
        supersteps: Supersteps = 100_000,
    ) -> None:
        check(self, delta=delta, supersteps=supersteps)
        super().__init__(supersteps)
        self._delta = delta

    def begin(self) -> None:
        self.state.arrays["values"] = self.part.vertices.astype(np.float64)

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Totals: the vertices whose number has changed."""
        everybody = np.ones(len(self.part.vertices), bool)
        changed = self.lower(messages) if number else everybody
        speaks = changed if self._delta else everybody
        told = self.along_edges(speaks, self.state.arrays["values"])
        return Spoken(told, np.array([float(changed.sum())]))

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        return bool(fed == 0 or totals[0] == 0)
