"""Draws edges of a graph as skewed as real ones are: R-MAT (Chakrabarti, Zhan, Faloutsos, 2004). Some come twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

QUADRANTS = np.cumsum([0.57, 0.19, 0.19])
"""The chances that both ends are in the lower half of the vertices, or the start alone, or the end alone."""
EDGES_A_VERTEX = 8
LEAST_BITS = 4


def generator(rng: np.random.Generator, edges: int) -> Callable[[int], bytes]:
    """A function that draws the given number of edges, as lines `start end`, of a graph that will have `edges`."""
    bits = max(LEAST_BITS, (max(1, edges // EDGES_A_VERTEX) - 1).bit_length())

    def chunk(lines: int) -> bytes:
        quadrant = np.searchsorted(QUADRANTS, rng.random((lines, bits)), side="right")
        weights = 1 << np.arange(bits)
        starts, ends = (quadrant >> 1) @ weights, (quadrant & 1) @ weights
        return b"".join(b"%d %d\n" % edge for edge in zip(starts.tolist(), ends.tolist(), strict=True))

    return chunk
