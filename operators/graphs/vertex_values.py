"""The common part of loops over a graph, in supersteps or without: edges, and a value for each vertex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.graphs.vertices import GraphPart
from riprap.operators.iteration.loop import Loop
from riprap.operators.iteration.supersteps import NO_MESSAGES, Messages
from riprap.operators.tables import Arrays, Schema, Table, joined, ordered


class VertexValues(Loop):
    """Edges in the rows of a loop's state, and a value for each vertex in its array `values`."""

    value = "value"
    """Name of a vertex's value, as people read it."""
    _part: tuple[int, GraphPart] | None = None

    @property
    def part(self) -> GraphPart:
        """This task's part of the graph; made of the rows anew in each window, and in a new incarnation."""
        if self._part is None or self._part[0] != self.state.epoch:
            self._part = self.state.epoch, GraphPart.of(self.state.rows)
        return self._part[1]

    def distances(self, source: int) -> np.ndarray:
        """Those that are known at first: 0 of the vertex `source`, and infinite ones. DataError for a negative length,
        with which paths could become shorter for ever."""
        part = self.part
        wrong = ~(part.lengths >= 0)
        if wrong.any():
            at = int(np.argmax(wrong))
            start, end, length = part.vertices[part.starts[at]], part.ends[at], part.lengths[at]
            raise DataError(f"the edge from {start} to {end} has the length {length:g}", "Give lengths from 0 on.")
        return np.where(part.vertices == source, 0.0, np.inf)

    def along_edges(self, chosen: np.ndarray, values: np.ndarray, lengthen: bool = False) -> Messages:
        """A message along each edge of the chosen vertices: its vertex's value, perhaps with the edge's length."""
        part = self.part
        edges = part.edges_of(chosen)
        if not len(edges):
            return NO_MESSAGES
        sent = values[part.starts[edges]] + (part.lengths[edges] if lengthen else 0.0)
        return Messages(part.ends[edges], sent)

    def lower(self, messages: Messages) -> np.ndarray:
        """Take in the least message of each vertex; True for those whose value it is below."""
        values = self.state.arrays["values"]
        least = np.full(len(values), np.inf)
        np.minimum.at(least, self.part.place(messages.keys), messages.values)
        lowered = least < values
        self.state.arrays["values"] = np.where(lowered, least, values)
        return lowered

    def answer(self) -> tuple[np.ndarray, np.ndarray]:
        return self.part.vertices, self.state.arrays["values"]

    def results(self) -> dict[str, np.ndarray]:
        """The `vertices` and their `values`."""
        vertices, values = self.answer()
        return {"vertices": vertices, "values": values[: len(vertices)]}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`vertices`: each vertex and its value, by vertex."""
        columns: Mapping[str, np.ndarray] = joined(
            [{"vertex": one["vertices"], cls.value: one["values"]} for one in results]
        )
        return {"vertices": Table(ordered(columns, np.argsort(columns["vertex"], kind="stable")))}
