"""A task's part of a graph: the edges that start at its vertices, as its rows say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

VERTEX = -1.0
"""In place of an edge's end: the row only says that the vertex is there."""


class GraphPart(NamedTuple):
    """Vertices (int64, ascending) and edges: the place of each edge's vertex among them, its end, and its length."""

    vertices: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> GraphPart:
        """Sorted rows (vertex, end, length); an edge that comes again counts once, with its least length."""
        fresh = np.ones(len(rows), bool)
        fresh[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
        vertices = np.unique(rows[:, 0]).astype(np.int64)
        edges = rows[fresh & (rows[:, 1] != VERTEX)]
        starts = np.searchsorted(vertices, edges[:, 0].astype(np.int64))
        return cls(vertices, starts, edges[:, 1].astype(np.int64), edges[:, 2])

    def place(self, keys: np.ndarray) -> np.ndarray:
        """The places of these vertices, all of which are there."""
        return np.searchsorted(self.vertices, keys)

    def edges_of(self, chosen: np.ndarray) -> np.ndarray:
        """The places of the edges whose vertex is chosen (bool, one for each vertex)."""
        return np.flatnonzero(chosen[self.starts])
