"""Random topologies as the planner's paper draws them (PPA VI-C), from a seeded generator.

Its text leaves open what follows: operators hang together as a tree towards one sink; a join has two input streams and
one operator in four of the others has, too; the tasks' workloads of an operator follow ranks that are shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from riprap.configs.shape import EdgeSection, Shape, placed, targets
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.rates import StreamRates, task_graph

UNIONS = 0.25


@dataclass(frozen=True)
class Specification:
    """Ranges are inclusive. `zipf` is the exponent of the workloads of an operator's tasks, 0 for equal ones; `joins`
    the fraction of operators that join; `shortcuts` the chance of a further edge from an operator to a later one."""

    kind: str = "structured"
    """structured, full, or mixed: each edge either."""
    operators: tuple[int, int] = (5, 10)
    parallelism: tuple[int, int] = (1, 10)
    zipf: float = 0.0
    joins: float = 0.0
    shortcuts: float = 0.0


@dataclass
class RandomTopology:
    """The shape, its measured rates, and the stages that join; told by its tasks and edges."""

    shape: Shape
    rates: StreamRates
    joins: frozenset[str]
    graph: TaskGraph = field(init=False)

    def __repr__(self) -> str:
        stages = ",".join(f"{name}{'*' if name in self.joins else ''}{n}" for name, n in self.shape.parallelism.items())
        return f"{stages};" + ",".join(f"{edge.name}:{edge.partitioning}" for edge in self.shape.edges)

    def __post_init__(self) -> None:
        self.graph = task_graph(self.shape, self.rates, self.joins)


def random_topology(rng: np.random.Generator, wanted: Specification) -> RandomTopology:
    """One topology of a specification."""
    count = int(rng.integers(wanted.operators[0], wanted.operators[1] + 1))
    joining = set(rng.permutation(count)[: round(wanted.joins * count)].tolist())
    parents = _parents(rng, count, joining)
    names = [f"o{number}" for number in range(count)]
    sizes = {name: int(rng.integers(wanted.parallelism[0], wanted.parallelism[1] + 1)) for name in names}
    pairs = [(child, parent) for child, parent in parents.items()]
    for child in range(2, count):
        if rng.random() < wanted.shortcuts:
            other = int(rng.integers(0, child))
            pairs += [(child, other)] if (child, other) not in pairs else []
    edges = [_edge(rng, names[child], names[parent], sizes, wanted.kind) for child, parent in pairs]
    shape = Shape({name: sizes[name] for name in reversed(names)}, placed(edges))
    joins = frozenset(name for number, name in enumerate(names) if number in joining and len(shape.in_edges(name)) > 1)
    return RandomTopology(shape, _rates(rng, shape, names, wanted.zipf), joins)


def _parents(rng: np.random.Generator, count: int, joining: set[int]) -> dict[int, int]:
    """By operator but the sink (0), the one that it sends to: always one of lower number."""
    wanted = {number: 2 if number in joining or rng.random() < UNIONS else 1 for number in range(count)}
    found: dict[int, int] = {}
    for number in range(1, count):
        open_ends = [other for other in range(number) if wanted[other] > 0]
        parent = int(rng.choice(open_ends))
        wanted[parent] -= 1
        found[number] = parent
    return found


def _edge(rng: np.random.Generator, upstream: str, downstream: str, sizes: dict[str, int], kind: str) -> EdgeSection:
    sending, receiving = sizes[upstream], sizes[downstream]
    if kind == "full" or (kind == "mixed" and rng.random() < 0.5):
        return EdgeSection(upstream, downstream, "full")
    one_to_one = sending == receiving
    return EdgeSection(
        upstream, downstream, "one_to_one" if one_to_one else "merge" if sending > receiving else "split"
    )


def _rates(rng: np.random.Generator, shape: Shape, names: list[str], zipf: float) -> StreamRates:
    """The rates of all links: a task's output goes to its receivers in proportion to their workloads."""
    shares = {}
    for name in names:
        ranks = np.arange(1, shape.parallelism[name] + 1, dtype=float) ** -zipf
        shares[name] = rng.permutation(ranks / ranks.sum())
    produced = {name: shares[name] if name in shape.sources else np.zeros(len(shares[name])) for name in names}
    links = {}
    for name in reversed(names):
        for edge in shape.out_edges(name):
            matrix = np.zeros((shape.parallelism[name], shape.parallelism[edge.downstream]))
            for sender, rate in enumerate(produced[name]):
                reached = targets(edge, *matrix.shape, sender)
                if reached:
                    weights = shares[edge.downstream][reached]
                    matrix[sender, reached] = rate * weights / weights.sum()
            produced[edge.downstream] = produced[edge.downstream] + matrix.sum(axis=0)
            links[edge.name] = matrix.tolist()
    sources = {name: shares[name].tolist() for name in shape.sources}
    return StreamRates(sources=sources, links=links)
