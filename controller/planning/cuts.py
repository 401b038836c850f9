"""Full edges that part a graph into factors: OF is the product of theirs, so that each can be planned by itself.

The premise is an edge over which every receiver gets the same share of each sender (its rates have rank 1), and which
all output crosses exactly once: then each receiver's input has the fidelity of the sending side's output. Not in the
paper, which splits there too (Algorithm 5) but adds up densities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riprap.controller.planning.fidelity import output_fidelity
from riprap.controller.planning.graph import Substreams, TaskGraph

EXCESS_MAX = 0.05
"""Measured rates are cut at an edge whose shares differ by less; the bound is widened by as much."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A part of a graph, and the numbers that its tasks have there.

    OF of the whole is at most the product, over the factors, of `scale` times the OF of the part; equal to it where
    all scales are 1.
    """

    graph: TaskGraph
    tasks: np.ndarray
    scale: float = 1.0


def factors(graph: TaskGraph) -> list[Factor]:
    """The finest factors, from sink to sources; the graph itself where no edge parts it."""
    whole = np.arange(graph.size)
    return _parted(Factor(graph, whole))


def _parted(factor: Factor) -> list[Factor]:
    graph = factor.graph
    for stream in graph.substreams:
        found = _sides(graph, stream)
        if found is None:
            continue
        sending, receiving = found
        shares = _matrix(graph, stream).max(axis=0)
        outputs = np.zeros(graph.size)
        outputs[graph.operators[stream.upstream].tasks] = shares
        upper, upper_tasks = graph.part(sending, outputs)
        lower, lower_tasks = graph.part(receiving, graph.outputs)
        scale = float(shares.sum()) if shares.sum() > 1 + 1e-9 else 1.0
        return [
            *_parted(Factor(lower, factor.tasks[lower_tasks], factor.scale)),
            *_parted(Factor(upper, factor.tasks[upper_tasks], scale)),
        ]
    return [factor]


def _sides(graph: TaskGraph, stream: Substreams) -> tuple[set[int], set[int]] | None:
    """The operators on both sides of an edge that parts the graph into factors; None for any other edge."""
    sending = _connected(graph, stream)
    if stream.downstream in sending or any(graph.outputs[graph.operators[place].tasks].any() for place in sending):
        return None
    if rank_one_excess(graph, stream) > EXCESS_MAX or not _is_crossed_once(graph, stream):
        return None
    return sending, set(range(len(graph.operators))) - sending


def _connected(graph: TaskGraph, without: Substreams) -> set[int]:
    """The operators that hang together with the sending one when an edge is gone."""
    neighbours: dict[int, set[int]] = {}
    for stream in graph.substreams:
        if stream is not without:
            neighbours.setdefault(stream.upstream, set()).add(stream.downstream)
            neighbours.setdefault(stream.downstream, set()).add(stream.upstream)
    found, todo = {without.upstream}, [without.upstream]
    while todo:
        fresh = neighbours.get(todo.pop(), set()) - found
        found |= fresh
        todo += fresh
    return found


def _matrix(graph: TaskGraph, stream: Substreams) -> np.ndarray:
    """(receivers, senders): the share of each sender in a receiver's stream; empty unless all send to all."""
    sending, receiving = graph.operators[stream.upstream], graph.operators[stream.downstream]
    if len(stream.rates) != sending.count * receiving.count:
        return np.zeros((0, sending.count))
    rates = stream.rates.reshape(receiving.count, sending.count)
    return rates / rates.sum(axis=1, keepdims=True)


def rank_one_excess(graph: TaskGraph, stream: Substreams) -> float:
    """The error of taking an edge's rates for rank 1: by how much the senders' largest shares sum to more than 1.

    Infinite where not every task sends to every other.
    """
    matrix: Sequence | np.ndarray = _matrix(graph, stream)
    return float(np.max(matrix, axis=0).sum() - 1) if len(matrix) else float("inf")


def _is_crossed_once(graph: TaskGraph, stream: Substreams) -> bool:
    """True when OF is proportional to the fidelity that crosses the edge: no tree avoids it, none needs it twice."""
    values = (0.5, 0.25)
    alive = np.ones((graph.size, len(values)))
    alive[graph.operators[stream.upstream].tasks] = values
    return bool(np.allclose(output_fidelity(graph, alive), values, rtol=0, atol=1e-9))


def best_split(
    curves: Sequence[np.ndarray], budget: int, together: np.ufunc = np.multiply
) -> tuple[np.ndarray, list[list[int]]]:
    """By budget up to `budget`, the largest product (or what `together` makes) of one value of each curve, and the
    budgets that they get.

    A curve has by number of replicas what a factor reaches, and does not fall.
    """
    value = np.full(budget + 1, float(together.identity))
    chosen = []
    for curve in curves:
        padded = np.concatenate([curve[: budget + 1], np.full(max(0, budget + 1 - len(curve)), curve[-1])])
        best, given = np.zeros(budget + 1), np.zeros(budget + 1, np.int64)
        for spent in range(min(len(curve), budget + 1)):
            found = together(padded[spent], value[: budget + 1 - spent])
            better = found > best[spent:]
            best[spent:][better] = found[better]
            given[spent:][better] = spent
        value = best
        chosen.append(given)
    return value, [_traced(chosen, total) for total in range(budget + 1)]


def _traced(chosen: list[np.ndarray], total: int) -> list[int]:
    found = []
    for given in reversed(chosen):
        found.append(int(given[total]))
        total -= found[-1]
    return found[::-1]
