"""Settles the faults of one job: the worker that `random:` draws, the items of `N%`, the faults that cannot be done."""

from __future__ import annotations

import random
from collections.abc import Sequence

from riprap.codec.errors import ConfigError
from riprap.codec.ids import WorkerId
from riprap.configs.problems import suggestion
from riprap.configs.topology import Topology
from riprap.controller.faults import Fault, When
from riprap.controller.victims import is_group
from riprap.engine.run.faults import SERVICES


def plan_faults(faults: Sequence[Fault], topology: Topology, total_items: int | None) -> list[Fault]:
    """Faults with definite targets and moments: `random:` is drawn by the job's seed, `%` turned into items.

    `total_items` is None when the source does not know it. ConfigError for a fault that this job cannot have.
    """
    draw = random.Random(topology.seed)  # noqa: S311 - to be drawn again alike
    drawn: set[str] = set()
    planned = []
    for fault in faults:
        target = _definite_target(fault, topology, draw, drawn)
        planned.append(Fault(fault.action, target, _definite_when(fault, total_items), fault.for_s, fault.cpu))
    return planned


def _definite_target(fault: Fault, topology: Topology, draw: random.Random, drawn: set[str]) -> str:
    """A worker, a service or a group of this job; random ones differ as long as there are workers left.

    Hosts are looked at in host_checks.py.
    """
    if fault.action == "cut":
        raise ConfigError(
            f"fault '{fault}': traffic cannot be cut here: the workers of `riprap run` share one network, and cut needs"
            " one that has a network namespace of its own",
            f"use stop:{fault.target}@{fault.when},for={fault.for_s:g}s, for a worker that neither sends nor answers;"
            " or run an agent in a namespace and take its link down",
        )
    if fault.target.partition(".")[0] == "backup" and "backup" not in topology.stages:
        return _backup_server(fault, topology)
    if fault.target.startswith("stage:"):
        _check_stage(fault, fault.target.removeprefix("stage:"), topology)
    if fault.target in SERVICES or is_group(fault.target):
        return fault.target
    if fault.target.startswith("random:"):
        stage = fault.target.removeprefix("random:")
        _check_stage(fault, stage, topology)
        workers = [str(worker) for worker in topology.tasks(stage)]
        target = draw.choice([worker for worker in workers if worker not in drawn] or workers)
        drawn.add(target)
        return target
    worker = WorkerId.parse(fault.target)
    _check_stage(fault, worker.stage, topology)
    tasks = topology.stages[worker.stage].parallelism
    if worker.index >= tasks:
        raise ConfigError(f"fault '{fault}': {worker.stage} has only {tasks} tasks", f"choose an index below {tasks}")
    if worker.copy and worker not in topology.copies:
        has = ", ".join(map(str, topology.copies)) or "none"
        raise ConfigError(
            f"fault '{fault}': {worker.primary} has no such replica; the job has {has}", "name one of these"
        )
    return str(worker)


def _backup_server(fault: Fault, topology: Topology) -> str:
    """A server that this job's launcher starts: `backup`, `backup.2`, ..."""
    started = topology.backup.servers if isinstance(topology.backup.servers, int) else 0
    names = ["backup", *(f"backup.{number}" for number in range(2, started + 1))][:started]
    if fault.target not in names:
        raise ConfigError(
            f"fault '{fault}': `riprap run` starts {', '.join(names) or 'no backup server'} for this topology",
            "choose another target, or set backup.servers to how many are to be started",
        )
    return fault.target


def _check_stage(fault: Fault, stage: str, topology: Topology) -> None:
    if stage not in topology.stages:
        raise ConfigError(
            f"fault '{fault}': the topology has no stage {stage}; it has {', '.join(topology.stages)}",
            suggestion(stage, topology.stages) or "name one of its stages",
        )


def _definite_when(fault: Fault, total_items: int | None) -> When:
    if fault.when.kind == "%":
        if total_items is None:
            raise ConfigError(f"fault '{fault}': the source does not say how many items it has", "use items=N")
        return When("items", -(-total_items * fault.when.value // 100))
    if fault.when.kind == "items" and total_items is not None and fault.when.value > total_items:
        raise ConfigError(
            f"fault '{fault}': the stream ends after {total_items} items, so it would never happen",
            f"choose items={total_items} or less",
        )
    return fault.when
