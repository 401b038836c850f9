"""Single-source shortest paths without supersteps: each task follows the paths within its part to their ends."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.operators.graphs.vertex_values import VertexValues
from riprap.operators.iteration.asynchronous import AsynchronousLoop
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import Messages
from riprap.operators.options import Option, check


class AsynchronousPaths(VertexValues, AsynchronousLoop):
    """The distance of each vertex from one of them; infinite where no path leads. Lengths must not be negative.

    As ShortestPaths, but no task waits for the others' superstep: it follows paths within its part of the graph to
    their ends, and tells others the least that it has found by then.
    """

    value = "distance"

    def __init__(
        self,
        source: Annotated[int, Option("The vertex that paths start from", unit="its number", low=0)] = 0,
    ) -> None:
        check(self, source=source)
        self._source = source
        self.state = LoopState(3, values=np.zeros(0))

    def begin(self) -> Messages:
        self.state.arrays["values"] = distances = self.distances(self._source)
        return self._told(distances == 0)

    def work(self, messages: Messages) -> Messages:
        return self._told(self.lower(messages))

    def merge(self, messages: Messages) -> Messages:
        """The least for each vertex."""
        keys, places = np.unique(messages.keys, return_inverse=True)
        least = np.full(len(keys), np.inf)
        np.minimum.at(least, places, messages.values)
        return Messages(keys, least)

    def _told(self, chosen: np.ndarray) -> Messages:
        return self.along_edges(chosen, self.state.arrays["values"], lengthen=True)
