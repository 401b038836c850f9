"""The best plans where each operator sends to all tasks of one other, by dynamic programs over the budget.

All tasks of an operator hear the same there, so of each operator those are best that carry most, and what its inputs
keep is the sum over a union's streams, or the product over a join's, of what each keeps by itself. So only the split of
the budget is left. Not in the paper, whose Algorithm 4 extends such plans by the best next task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from riprap.controller.planning.cuts import best_split
from riprap.controller.planning.graph import StreamShares, TaskGraph


@dataclass(frozen=True, eq=False)
class _Branch:
    """An operator and all that it hears, with the best splits of each budget."""

    values: np.ndarray
    """By budget, the most that it keeps; an upper bound where its receivers' shares differ."""
    ranked: list[int]
    own: list[int]
    """By budget, how many of these have a replica."""
    inputs: list[_Branch]
    dealt: list[list[int]]
    """By what is left of the budget, the budgets of the inputs."""

    def tasks(self, budget: int) -> Iterator[int]:
        """The best plan of a budget."""
        own = self.own[budget]
        yield from self.ranked[:own]
        for branch, given in zip(self.inputs, self.dealt[budget - own]):
            yield from branch.tasks(given)


class FullTree:
    """The best plans up to a budget of a graph that is such a tree; ValueError for another."""

    def __init__(self, graph: TaskGraph, budget: int) -> None:
        if not is_full_tree(graph):
            raise ValueError("it is no tree of full edges")
        self._graph = graph
        sinks = [place for place, group in enumerate(graph.operators) if graph.outputs[group.tasks].any()]
        self._branches = [self._branch(place, graph.outputs[graph.operators[place].tasks], budget) for place in sinks]
        bounds, self._dealt = best_split([one.values for one in self._branches], budget, np.add)
        self.bounds = np.minimum(1.0, bounds)
        """By budget, what no plan exceeds; reached by these plans where all receivers of an edge have the same
        shares."""

    def plan(self, budget: int) -> frozenset[int]:
        """The plan of a budget."""
        return frozenset(
            task for branch, given in zip(self._branches, self._dealt[budget]) for task in branch.tasks(given)
        )

    def _branch(self, place: int, worth: np.ndarray, budget: int) -> _Branch:
        """Of an operator whose tasks, in their order, carry so much of what is looked at."""
        graph, group = self._graph, self._graph.operators[place]
        spared = graph.spared[group.tasks]
        order = np.argsort(-worth, kind="stable")
        order = order[~spared[order]]
        kept = worth[spared].sum() + np.concatenate([[0.0], np.cumsum(worth[order])])
        streams = graph.inputs[place]
        inputs = [self._branch(stream.links.upstream, largest_shares(stream), budget) for stream in streams]
        together = np.multiply if group.correlated else np.add
        arriving, dealt = best_split([], budget)
        if inputs:
            arriving, dealt = best_split([branch.values for branch in inputs], budget, together)
        values, given = best_split([kept, arriving], budget)
        return _Branch(values, (group.first + order).tolist(), [own for own, _ in given], inputs, dealt)


def is_full_tree(graph: TaskGraph) -> bool:
    """True when all edges are full, and no operator sends to two others, or sends and puts out."""
    sending = [stream.upstream for stream in graph.substreams]
    complete = all(
        len(stream.rates) == graph.operators[stream.upstream].count * graph.operators[stream.downstream].count
        for stream in graph.substreams
    )
    silent = not any(graph.outputs[graph.operators[place].tasks].any() for place in sending)
    return complete and silent and len(set(sending)) == len(sending)


def largest_shares(stream: StreamShares) -> np.ndarray:
    """By sender, its largest share in the input of a receiver."""
    if stream.common is not None:
        return stream.common
    found: np.ndarray = np.reshape(stream.shares, (stream.count, -1)).max(axis=0)
    return found
