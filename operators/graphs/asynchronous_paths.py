"""Single-source shortest paths without supersteps: each task follows the paths within its part to their ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from riprap.operators.graphs.vertices import GraphPart
from riprap.operators.iteration.asynchronous import AsynchronousLoop
from riprap.operators.iteration.loop_state import LoopState
from riprap.operators.iteration.supersteps import Messages
from riprap.operators.options import Option, check
from riprap.operators.tables import Arrays, Schema, Table, joined, ordered


class AsynchronousPaths(AsynchronousLoop):
    """The distance of each vertex from one of them; infinite where no path leads. Lengths must not be negative.

    As ShortestPaths, but no task waits for the others' superstep: it follows paths within its part of the graph to
    their ends, and tells others the least that it has found by then.
    """

    def __init__(
        self,
        source: Annotated[int, Option("The vertex that paths start from", unit="its number", low=0)] = 0,
    ) -> None:
        check(self, source=source)
        self._source = source
        self.state = LoopState(3, distances=np.zeros(0))
        self._part: tuple[int, GraphPart] | None = None

    @property
    def part(self) -> GraphPart:
        """This task's part of the graph; made of the rows anew in each window, and in a new incarnation."""
        if self._part is None or self._part[0] != self.state.epoch:
            self._part = self.state.epoch, GraphPart.of(self.state.rows)
        return self._part[1]

    def begin(self) -> Messages:
        nearer = self.part.vertices == self._source
        self.state.arrays["distances"] = np.where(nearer, 0.0, np.inf)
        return self._along_edges(nearer)

    def work(self, messages: Messages) -> Messages:
        before = self.state.arrays["distances"]
        distances = before.copy()
        np.minimum.at(distances, self.part.place(messages.keys), messages.values)
        self.state.arrays["distances"] = distances
        return self._along_edges(distances < before)

    def merge(self, messages: Messages) -> Messages:
        """The least for each vertex."""
        keys, places = np.unique(messages.keys, return_inverse=True)
        least = np.full(len(keys), np.inf)
        np.minimum.at(least, places, messages.values)
        return Messages(keys, least)

    def _along_edges(self, chosen: np.ndarray) -> Messages:
        part = self.part
        edges = part.edges_of(chosen)
        return Messages(part.ends[edges], self.state.arrays["distances"][part.starts[edges]] + part.lengths[edges])

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return self.part.vertices, self.state.arrays["distances"]

    def results(self) -> dict[str, np.ndarray]:
        """The `vertices` and their `values`, which are distances."""
        vertices, distances = self.answer()
        return {"vertices": vertices, "values": distances[: len(vertices)]}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`vertices`: each vertex and its distance, by vertex."""
        columns: Mapping[str, np.ndarray] = joined(
            [{"vertex": one["vertices"], "distance": one["values"]} for one in results]
        )
        return {"vertices": Table(ordered(columns, np.argsort(columns["vertex"], kind="stable")))}
