"""The base of loops over a graph that go in supersteps."""

from __future__ import annotations

import numpy as np

from riprap.operators.graphs.vertex_values import VertexValues
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import Iteration


class GraphLoop(VertexValues, Iteration):
    """Base of graph algorithms: the graph of a window is that of all edges so far, and its values are found anew.

    A subclass sets the first values of the vertices in `begin`.
    """

    keeps = ("values",)

    def __init__(self, supersteps: int) -> None:
        super().__init__(supersteps)
        self.state = LoopState(3, values=np.zeros(0))
