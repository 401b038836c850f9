"""Deals the tasks of a job over hosts, by the topology's `placement` and by what a code or copies can bear to lose.

Pure: facts in, a host out. It is greedy, task by task, and moves none that runs; where a job begins and that satisfies
no spread, numbers are searched for (placement_numbers.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.sections import PlacementOptions
from riprap.controller.labels import HOST, HostLabels
from riprap.controller.placement_numbers import Cell, spread_numbers

SEVERAL = 2
"""Losses in one domain, not recovered yet, from which on another one is better."""
SHOWN_MAX = 8
REMEDY = (
    "label more hosts (`riprap agent --label`, `riprap run --hosts 4 --domains rack=2`), raise placement.max_skew, or"
    " set placement.when_unsatisfiable to best_effort"
)

Row = tuple[str, int]
"""Tasks of a coded stage that hold pieces of the same row, or copies of the same block: the stage, and a number."""

Quotas = Mapping[tuple[str, Cell], int]
"""The most tasks of a group on the hosts of a cell."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The demands of a job on its hosts."""

    asked: PlacementOptions | None = None
    """The topology's `placement`."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """By coded stage, how many tasks a row has."""

    @classmethod
    def of(cls, topology: Mapping[str, Any]) -> Rules:
        """Those of a topology as submitted; ConfigError where nobody has checked it."""
        try:
            rows = dict(_rows(topology))
            section = topology.get("placement")
            return cls(PlacementOptions.of(section) if section else None, rows)
        except (TypeError, ValueError, AttributeError, KeyError, ZeroDivisionError) as error:
            raise ConfigError(f"the topology's placement cannot be read: {error!r}", "correct the topology") from error

    @property
    def spread(self) -> tuple[str, ...]:
        """The labels over which tasks are spread."""
        return self.asked.spread if self.asked is not None else ()

    @property
    def strict(self) -> bool:
        """True for a job that is not to start where its spread cannot be had."""
        return self.asked is not None and self.asked.when_unsatisfiable == "fail"

    def row_of(self, worker: WorkerId) -> Row:
        """The tasks that a worker shares no host with, if it can be helped; in a stage without a code it is alone."""
        return worker.stage, worker.index // self.rows.get(worker.stage, 1)


def _rows(topology: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    ahead = [edge for edge in topology.get("edges") or () if not (edge.get("feedback") or edge.get("loop"))]
    inner = {edge["to"] for edge in ahead} & {edge["from"] for edge in ahead}
    for name, stage in topology["stages"].items():
        jobs = topology.get("fault_tolerance") if name in inner else None
        scheme = stage.get("fault_tolerance") or jobs or {}
        if scheme.get("scheme") == "erasure":
            yield name, int(stage.get("parallelism", 1))
        elif scheme.get("scheme") == "replication":
            yield name, int(scheme["copies"])


class Deal:
    """The tasks of one job on the hosts that can be given work, while more of them are dealt.

    `placed` has those that have a host; `load` counts the tasks of all jobs by host, and is counted on; `losses` are
    the labels of the hosts on which tasks were lost that are not back yet.
    """

    def __init__(
        self, rules: Rules, hosts: Mapping[str, HostLabels], placed: Mapping[WorkerId, str], load: Counter[str],
        losses: Iterable[HostLabels] = (), quotas: Quotas | None = None,
    ) -> None:  # fmt: skip
        self._rules, self._hosts, self._load = rules, hosts, load
        self._quotas = quotas or {}
        self._given: Counter[tuple[str, Cell]] = Counter()
        self._mates: Counter[tuple[Row, str]] = Counter()
        self._tasks: Counter[tuple[str, str, str]] = Counter()
        self._copies: Counter[tuple[WorkerId, str, str]] = Counter()
        """Of each task, by label and value, its primary and replicas."""
        fitting = [labels for labels in hosts.values() if all(label in labels for label in rules.spread)]
        self._values = {label: {labels[label] for labels in fitting} for label in rules.spread}
        self._hurt = set(_hurt(rules, hosts, losses))
        for worker, host in placed.items():
            self._count(worker, host)

    def place(self, worker: WorkerId, before: str = "") -> str:
        """The host of a task that was on `before`, if it was anywhere."""
        group, lowest = _group_of(worker), {}
        for label, values in self._values.items():
            lowest[label] = min((self._tasks[group, label, value] for value in values), default=0)
        host = min(self._hosts, key=lambda name: self._cost(worker, name, before, lowest))
        self._count(worker, host)
        self._load[host] += 1
        return host

    def _cost(self, worker: WorkerId, host: str, before: str, lowest: Mapping[str, int]) -> tuple[Any, ...]:
        """The first that differs decides: the quota, copies of the task, the spread, pieces of the row, fresh losses,
        the former host, even numbers."""
        labels, rules = self._hosts[host], self._rules
        lacking = sum(label not in labels for label in rules.spread)
        counts = [self._tasks[_group_of(worker), label, labels.get(label, "")] for label in rules.spread]
        most = rules.asked.max_skew if rules.asked is not None else 0
        excess = sum(max(0, count + 1 - lowest[label] - most) for label, count in zip(rules.spread, counts))
        mates = self._mates[rules.row_of(worker), host]
        copies = sum(self._copies[worker.primary, label, labels.get(label, "")] for label in rules.spread)
        place = _group_of(worker), _cell_of(rules, labels)
        full = place in self._quotas and self._given[place] >= self._quotas[place]
        return lacking, full, copies, excess, mates, host in self._hurt, host != before, *counts, self._load[host], host

    def _count(self, worker: WorkerId, host: str) -> None:
        self._mates[self._rules.row_of(worker), host] += 1
        self._given[_group_of(worker), _cell_of(self._rules, self._hosts.get(host, {}))] += 1
        for label in self._rules.spread:
            value = self._hosts.get(host, {}).get(label, "")
            self._tasks[_group_of(worker), label, value] += 1
            self._copies[worker.primary, label, value] += 1


def _group_of(worker: WorkerId) -> str:
    """The tasks that are spread together: those of a stage, and for themselves their replicas."""
    return str(worker._replace(index=0))


def _cell_of(rules: Rules, labels: HostLabels) -> Cell:
    return tuple(labels.get(label, "") for label in rules.spread)


def _hurt(rules: Rules, hosts: Mapping[str, HostLabels], losses: Iterable[HostLabels]) -> Iterator[str]:
    """The hosts in a domain with several fresh losses."""
    keys = dict.fromkeys((HOST, *rules.spread))
    lost = Counter((key, labels[key]) for labels in losses for key in keys if key in labels)
    for host, labels in hosts.items():
        if any(lost[key, labels.get(key, "")] >= SEVERAL for key in keys):
            yield host


def dealt(
    rules: Rules, workers: Collection[WorkerId], hosts: Mapping[str, HostLabels], load: Mapping[str, int] | None = None
) -> dict[WorkerId, str]:  # fmt: skip
    """The hosts of all workers of a job that is to start; its spread comes before even numbers of tasks of all jobs, of
    which the hosts have `load`."""
    found = _dealt(rules, workers, hosts, load or {})
    if load and unsatisfied(rules, hosts, found):
        found = _dealt(rules, workers, hosts, {})
    if unsatisfied(rules, hosts, found) and (quotas := _quotas(rules, workers, hosts)):
        found = _dealt(rules, workers, hosts, load or {}, quotas)
    return found


def _dealt(
    rules: Rules, workers: Iterable[WorkerId], hosts: Mapping[str, HostLabels], load: Mapping[str, int],
    quotas: Quotas | None = None,
) -> dict[WorkerId, str]:  # fmt: skip
    deal = Deal(rules, hosts, {}, Counter(load), quotas=quotas)
    return {worker: deal.place(worker) for worker in workers}


def _quotas(rules: Rules, workers: Iterable[WorkerId], hosts: Mapping[str, HostLabels]) -> Quotas:
    """The numbers of tasks by which each stage is spread as asked, as far as they are found."""
    cells = sorted({_cell_of(rules, labels) for labels in hosts.values() if all(one in labels for one in rules.spread)})
    if rules.asked is None or not cells:
        return {}
    groups = Counter(_group_of(worker) for worker in workers if not worker.copy)
    numbers = {group: spread_numbers(cells, count, rules.asked.max_skew) for group, count in groups.items()}
    return {(group, cell): number for group, found in numbers.items() if found for cell, number in found.items()}


def unsatisfied(rules: Rules, hosts: Mapping[str, HostLabels], placed: Mapping[WorkerId, str]) -> list[str]:
    """The stages and labels whose spread is not as demanded: what there is, and what is needed, a sentence each.

    One task needs no spread; several need two values of the label at least. Replicas go where their primaries are not.
    """
    if rules.asked is None:
        return []
    by_stage: dict[str, list[str]] = {}
    for worker, host in ((worker, host) for worker, host in placed.items() if not worker.copy):
        by_stage.setdefault(worker.stage, []).append(host)
    asked, several = rules.asked, ((stage, on) for stage, on in by_stage.items() if len(on) > 1)
    found = (_wrong(asked, hosts, stage, on, label) for stage, on in several for label in asked.spread)
    return [sentence for sentence in found if sentence]


def _wrong(asked: PlacementOptions, hosts: Mapping[str, HostLabels], stage: str, on: list[str], label: str) -> str:
    fitting = [labels for labels in hosts.values() if all(key in labels for key in asked.spread)]
    tally = dict.fromkeys(sorted(labels[label] for labels in fitting), 0)
    for host in on:
        value = hosts.get(host, {}).get(label)
        tally |= {value: tally.get(value, 0) + 1} if value is not None else {}
    demand = f"stage {stage}: {len(on)} tasks are to be spread over {label}"
    if not any(label in labels for labels in hosts.values()):
        return f"{demand}, and none of the hosts {_some(hosts)} has that label; needed: two values of it at least"
    if len(tally) < 2:
        there = ", ".join(f"{label}={value}" for value in tally) or "no host that has all of the labels"
        return f"{demand}, and there is only {there}; needed: two values at least"
    skew = max(tally.values()) - min(tally.values())
    if skew > asked.max_skew:
        shares = _some(f"{value}: {count}" for value, count in tally.items())
        return f"{demand}, and the numbers found are {shares}; needed: numbers that differ by {asked.max_skew} at most"
    lacking = [host for host in on if label not in hosts.get(host, {})]
    return f"{demand}, and {len(lacking)} are on hosts without it" if lacking else ""


def _some(words: Iterable[str]) -> str:
    every = list(words)
    return ", ".join(every[:SHOWN_MAX]) + (f" and {len(every) - SHOWN_MAX} more" if len(every) > SHOWN_MAX else "")
