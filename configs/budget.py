"""A budget of active replicas: so many tasks, or a share of those that can have one."""

from __future__ import annotations

import math

from riprap.codec.errors import ConfigError

BUDGET = "a number of tasks, as 8, or a share of them, as 25%"


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
