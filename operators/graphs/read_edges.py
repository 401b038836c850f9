"""Reads edge lists, and deals edges out by the vertex that they start at."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from riprap.codec.errors import DataError
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.graphs.vertices import VERTEX
from riprap.operators.iteration.exact import check_exact
from riprap.operators.iteration.read_rows import table_of
from riprap.operators.options import Option, check

FORM = "Write two whole numbers from 0 on in each line, or those and a length; the same in all lines."


class ReadEdges(DataflowOperator):
    """Source stage: lines `from to` or `from to length`, the latter 1 where there is none; vertices are numbers.

    Sends rows (vertex, end, length), and of each edge's end the row (end, -1, 0), so that its task knows it. With
    `bipartite` the two columns number two kinds, users and items say: u is vertex 2 u, i is vertex 2 i + 1, and edges
    run both ways.
    """

    def __init__(
        self,
        undirected: Annotated[bool, Option("Each edge runs both ways; else from the first to the second")] = False,
        bipartite: Annotated[bool, Option("The two columns number vertices of two kinds")] = False,
    ) -> None:
        check(self, undirected=undirected, bipartite=bipartite)
        self._undirected, self._bipartite = undirected or bipartite, bipartite

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        """Lines: bytes (uint8) without line ends, and count + 1 offsets (int64); a whole block, there is no state."""
        starts, ends, lengths = _edges(*items.arrays)
        if self._bipartite:
            starts, ends = 2 * starts, 2 * ends + 1
        for vertices in (starts, ends):
            check_exact(vertices, "the vertex")
        rows = [(starts, ends, lengths), (ends, np.full(len(ends), VERTEX), np.zeros(len(ends)))]
        if self._undirected:
            rows[1] = (ends, starts, lengths)
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        out.send_by_key(columns[0].astype(np.int64), columns[1:])
        return items.count


def _edges(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = table_of(data, offsets, "edges", FORM)
    if not table.size:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    if table.shape[1] not in (2, 3):
        raise DataError(f"the input is no list of edges: a line has {table.shape[1]} columns", FORM)
    if (table[:, :2] < 0).any() or (table[:, :2] % 1 != 0).any():
        raise DataError("the input is no list of edges: a vertex is no whole number from 0 on", FORM)
    return table[:, 0], table[:, 1], table[:, 2] if table.shape[1] == 3 else np.ones(len(table))
