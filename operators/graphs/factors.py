"""Ratings explained by factors of users and items, found by alternating least squares, in supersteps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np

from riprap.operators.finite import check_rows
from riprap.operators.graphs.graph_loop import GraphLoop
from riprap.operators.iteration.supersteps import Messages, Spoken, Supersteps
from riprap.operators.options import Option, check
from riprap.operators.tables import Arrays, Schema, Table, joined, ordered

GOLDEN = 0.6180339887498949
MIXED_BELOW = 2**32
"""Multiples of much larger numbers have no digits left behind the point: all first factors would be 0."""


class AlternatingLeastSquares(GraphLoop):
    """Minimises the squared error of (factors of user) . (factors of item) for all ratings so far, with a penalty on
    each vertex's factors that grows with its ratings (Zhou et al. 2008). Edges come from ReadEdges with `bipartite`.

    In superstep 0 items tell their users their first factors, which follow from their numbers; then users and items
    solve in turn, and tell the other side.
    """

    combines: ClassVar[Mapping[str, str]] = {"rmse": "mean"}  # all tasks know the same
    meanings: ClassVar[Mapping[str, str]] = {"rmse": "root of the mean squared error over all ratings so far"}

    def __init__(
        self,
        rank: Annotated[int, Option("Length of a row of factors", unit="factors", low=1, high=100)] = 8,
        l2: Annotated[float, Option("The weight of the penalty, for each rating", low=0, above=True)] = 0.05,
        tolerance: Annotated[
            float, Option("The loop ends once a superstep lowers the error by a smaller part of it", low=0)
        ] = 1e-4,
        supersteps: Supersteps = 100,
    ) -> None:
        check(self, rank=rank, l2=l2, tolerance=tolerance, supersteps=supersteps)
        super().__init__(supersteps)
        self._rank, self._l2, self._tolerance = rank, l2, tolerance
        self.state.arrays |= {"values": np.zeros((0, rank)), "before": np.zeros(3), "error": np.zeros(2)}

    def begin(self) -> None:
        """DataError for ratings that are not finite."""
        check_rows(self.part.lengths, "the ratings")
        self.state.arrays |= {"values": self._first(self.part.vertices), "before": np.full(3, np.inf)}

    def superstep(self, number: int, messages: Messages, totals: np.ndarray) -> Spoken:
        """Totals: the minimised value, the squared error in it, and the ratings."""
        arrays, vertices = self.state.arrays, self.part.vertices
        if number == 0:
            return Spoken(self._told(vertices % 2 == 1), np.full(3, np.inf))
        arrays["before"] = totals
        side = vertices % 2 == (number + 1) % 2
        places, ratings, others = self.part.place(messages.keys), messages.values[:, 0], messages.values[:, 1:]
        self._solve(side, places, ratings, others)
        own = arrays["values"][places]
        error = ((np.einsum("ij,ij->i", own, others) - ratings) ** 2).sum()
        penalty = self._l2 * ((own**2).sum() + (others**2).sum())
        return Spoken(self._told(side), np.array([error + penalty, error, len(ratings)]))

    def _first(self, vertices: np.ndarray) -> np.ndarray:
        """Numbers between 0 and 1 that look like chance, the same in each incarnation and for each number of tasks."""
        places = ((vertices + 1) % MIXED_BELOW)[:, None]
        mixed = places * GOLDEN + np.sqrt(2 + np.arange(self._rank))[None, :] * places
        return np.asarray(mixed % 1.0)

    def _told(self, side: np.ndarray) -> Messages:
        """To the other end of each edge of these vertices: the rating, and the vertex's factors."""
        part = self.part
        edges = part.edges_of(side)
        values = self.state.arrays["values"][part.starts[edges]]
        return Messages(part.ends[edges], np.column_stack([part.lengths[edges], values]))

    def _solve(self, side: np.ndarray, places: np.ndarray, ratings: np.ndarray, others: np.ndarray) -> None:
        """Solve for the factors of a side, from the messages of the other one."""
        count, rank = len(self.part.vertices), self._rank
        normal, right = np.zeros((count, rank, rank)), np.zeros((count, rank))
        for i in range(rank):
            right[:, i] = np.bincount(places, ratings * others[:, i], count)[:count]
            for j in range(i + 1):
                normal[:, i, j] = normal[:, j, i] = np.bincount(places, others[:, i] * others[:, j], count)[:count]
        rated = np.bincount(places, minlength=count)[:count]
        normal += (self._l2 * np.maximum(rated, 1))[:, None, None] * np.eye(rank)
        values = self.state.arrays["values"].copy()
        values[side] = np.linalg.solve(normal[side], right[side, :, None])[:, :, 0]
        self.state.arrays["values"] = values

    def finished(self, fed: int, totals: np.ndarray) -> bool:
        """Each superstep lowers the minimised value; the second is the first whose other side has solved, too.
        Notes the error for people."""
        self.state.arrays["error"] = totals[1:]
        before, now = self.state.arrays["before"][0], totals[0]
        return fed == 0 or (self.state.superstep > 2 and bool(before - now < self._tolerance * before))

    def metrics(self) -> dict[str, float]:
        error, ratings = self.state.arrays["error"].tolist()
        return {"rmse": float(np.sqrt(error / ratings)) if 0 < ratings < np.inf else 0.0}

    @classmethod
    def tables(cls, results: Sequence[Arrays], schema: Schema) -> dict[str, Table]:
        """`factors`: of each user and item, by kind and number."""
        columns: Mapping[str, np.ndarray] = joined([_columns(one["vertices"], one["values"]) for one in results])
        return {"factors": Table(ordered(columns, np.lexsort((columns["number"], columns["item"]))))}


def _columns(vertices: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
    factors = {f"factor{i}": values[:, i] for i in range(values.shape[1])}
    return {"item": vertices % 2 == 1, "number": vertices // 2, **factors}
