"""Failures of domains (hosts, racks, power lines): the output to be expected, and plans that maximize it.

One domain fails at a time. What fails with it is of that domain alone, so the expected OF is a sum over the domains,
each with a part of its own of the plan, and the parts share the budget. A replica survives only if its domain does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from riprap.codec.errors import ConfigError
from riprap.controller.planning.bounds import upper_bounds
from riprap.controller.planning.fidelity import output_fidelity
from riprap.controller.planning.graph import TaskGraph
from riprap.controller.planning.paths import plans_up_to


@dataclass(frozen=True)
class FailureDomain:
    """Tasks that fail together; only the ratios of the probabilities of domains matter."""

    name: str
    tasks: frozenset[int]
    probability: float = 1.0


def each_alone(graph: TaskGraph) -> tuple[FailureDomain, ...]:
    """Independent failures: each task is a domain, and one is as likely to fail as another; free ones never do."""
    return tuple(
        FailureDomain(name, frozenset({task}), 0.0 if task in graph.free else 1.0)
        for task, name in enumerate(graph.names)
    )


def expected_fidelity(graph: TaskGraph, domains: Sequence[FailureDomain], replicas: Mapping[int, str]) -> float:
    """The mean OF over the failures of single domains; `replicas` has by task the domain of its replica."""
    total = sum(domain.probability for domain in domains)
    found = 0.0
    for domain in domains:
        alive = ~graph.mask(domain.tasks - graph.free)
        alive |= graph.mask(task for task, place in replicas.items() if place != domain.name)
        found += domain.probability / total * float(output_fidelity(graph, alive))
    return found


def place_replicas(plan: frozenset[int], domains: Sequence[FailureDomain]) -> dict[int, str]:
    """By task of a plan, the domain of its replica: never its primary's, the one with the fewest tasks and replicas.

    ConfigError when there is no other domain.
    """
    if plan and len(domains) < 2:
        raise ConfigError("there is one failure domain, and a replica would fail with its primary", "name two domains")
    home = {task: domain.name for domain in domains for task in domain.tasks}
    held = {domain.name: len(domain.tasks) for domain in domains}
    found = {}
    for task in sorted(plan):
        place = min((name for name in held if name != home.get(task)), key=lambda name: held[name])
        held[place] += 1
        found[task] = place
    return found


@dataclass(frozen=True, eq=False)
class _DomainCurve:
    """By number of replicas within a domain: the plan, the OF of its failure, and what no plan exceeds."""

    plans: list[frozenset[int]]
    values: np.ndarray
    bounds: np.ndarray


def plan_expected(
    graph: TaskGraph, budget: int, domains: Sequence[FailureDomain], begin: frozenset[int] = frozenset()
) -> tuple[frozenset[int], float]:  # fmt: skip
    """A plan of at most `budget` replicas, those of `begin` among them, for the mean OF over failures of domains; and a
    number that no plan exceeds."""
    total = sum(domain.probability for domain in domains)
    spare = budget - len(begin)
    value, limit = np.zeros(spare + 1), np.zeros(spare + 1)
    chosen: list[tuple[_DomainCurve, np.ndarray]] = []
    for domain in domains:
        curve = _curve(graph, domain, spare, begin)
        weight = domain.probability / total
        value, given = _sum_split(value, weight * curve.values)
        limit, _ = _sum_split(limit, weight * curve.bounds)
        chosen.append((curve, given))
    plan, left = set(begin), spare
    for curve, given in reversed(chosen):
        plan |= curve.plans[given[left]]
        left -= int(given[left])
    return frozenset(plan), float(min(1.0, limit[spare]))


def _curve(graph: TaskGraph, domain: FailureDomain, budget: int, begin: frozenset[int]) -> _DomainCurve:
    failing = domain.tasks - begin - graph.free
    spared = ~graph.mask(failing)
    if len(failing) <= 1:  # as there are many of, and no search is needed for
        values = output_fidelity(graph, np.stack([spared, np.ones(graph.size, bool)], axis=1))
        most = 1 + min(budget, len(failing))
        return _DomainCurve([frozenset(), failing], values[:most], values[:most])
    most = min(budget, graph.size - int(spared.sum()))
    plans, values = plans_up_to(graph, most, spared)
    return _DomainCurve(plans, values, np.maximum(values, upper_bounds(graph, range(most + 1), spared)))


def _sum_split(value: np.ndarray, curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By budget, the largest sum of what there was and one value of a curve, and the part of the budget it gets."""
    best, given = np.full(len(value), -1.0), np.zeros(len(value), np.int64)
    for spent, added in enumerate(curve[: len(value)]):
        found = value[: len(value) - spent] + added
        better = found > best[spent:]
        best[spent:][better] = found[better]
        given[spent:][better] = spent
    return best, given
