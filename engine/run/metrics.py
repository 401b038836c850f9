"""Makes the job's metrics of its destinations' reports, each metric as its operator says that tasks combine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Stats = Mapping[str, Any]


def _sum(tasks: Mapping[str, Stats], name: str) -> dict[str, float]:
    return {name: sum(stats["metrics"][name] for stats in tasks.values())}


def _mean(tasks: Mapping[str, Stats], name: str) -> dict[str, float]:
    """The mean weighted by the items of each task; plain where none of them counts any."""
    values = {worker: (stats["metrics"][name], stats.get("items", 0)) for worker, stats in tasks.items()}
    weight = sum(items for _, items in values.values())
    if not weight:
        return {name: sum(value for value, _ in values.values()) / len(values)}
    return {name: sum(value * items for value, items in values.values()) / weight}


def _per_task(tasks: Mapping[str, Stats], name: str) -> dict[str, float]:
    return {f"{worker}.{name}": stats["metrics"][name] for worker, stats in tasks.items()}


_COMBINED: Mapping[str, Callable[[Mapping[str, Stats], str], dict[str, float]]] = {"sum": _sum, "mean": _mean}


def combine(last: Mapping[str, Stats]) -> dict[str, float | None]:
    """Combine the newest statistics of each worker: one number a metric, or one a task where the operator names no way.

    The metrics of a single task are the job's as they are. One that is not finite at some task (None) is not finite.
    """
    reporting = {worker: stats for worker, stats in sorted(last.items()) if stats.get("metrics")}
    names = dict.fromkeys(name for stats in reporting.values() for name in stats["metrics"])
    combined: dict[str, float | None] = {}
    for name in names:
        tasks = {worker: stats for worker, stats in reporting.items() if name in stats["metrics"]}
        if any(stats["metrics"][name] is None for stats in tasks.values()):
            combined[name] = None
            continue
        ways = {str(stats.get("combines", {}).get(name)) for stats in tasks.values()}
        way = _COMBINED.get(ways.pop(), _per_task) if len(ways) == 1 else _per_task
        combined |= way(tasks, name) if len(reporting) > 1 else _sum(tasks, name)
    return combined
