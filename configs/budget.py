"""A budget of active replicas: so many tasks, or a share of those that can have one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.configs.shape import Shape

BUDGET = "a number of tasks, as 8, or a share of them, as 25%"


def why_destinations_have_none(options: Mapping[str, Any]) -> tuple[str, str]:
    """The reason for which no destination can have one under these options of fault tolerance, and what to do without
    it; empty where each can."""
    if options.get("reconcile") is False:
        return "reconcile is false: its copies would not write the same", "tentative output that is made exact"
    if options.get("adapt") is True:
        return "adapt is true: plans move the replicas of the stages before", "no fault_tolerance.adapt"
    return "", ""


def stages_without_replicas(shape: Shape, options: Mapping[str, Any]) -> frozenset[str]:
    """The stages none of whose tasks can have one under these options."""
    return frozenset(shape.sinks if any(why_destinations_have_none(options)) else ())


def replaceable(shape: Shape, options: Mapping[str, Any]) -> int:
    """The number of tasks that can have one."""
    bare = stages_without_replicas(shape, options)
    return sum(tasks for stage, tasks in shape.parallelism.items() if stage not in bare)


def replicas_allowed(budget: str, tasks: int) -> int:
    """The number of replicas that a budget allows where `tasks` can have one; a share is rounded down.

    ConfigError, which does not say where the budget stood, when it is none or more than one for each task.
    """
    is_share = budget.endswith("%")
    try:
        value = float(budget.removesuffix("%")) if is_share else int(budget)
    except ValueError as error:
        raise ConfigError("not a number of tasks", f"give {BUDGET}") from error
    if not 0 <= value <= (100 if is_share else tasks) or math.isnan(value):
        has = f"the topology has {tasks} task{'' if tasks == 1 else 's'} that can have a replica"
        raise ConfigError(f"{has}, and each has one at most", f"give {BUDGET}")
    return int(tasks * value / 100) if is_share else int(value)
