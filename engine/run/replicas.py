"""Active replicas as users see them: the copies of each task that are heard and those that stand by, and whose output
is tentative (PPA V-B)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from riprap.codec.ids import WorkerId
from riprap.controller.view import OFF

STANDBY, ACTIVE, TENTATIVE = "standby", "active", "tentative"


def roles(workers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """`active` or `standby` by worker, of the controller's `workers`: of tasks with replicas, those that are up and
    have heard from their receivers. `tentative` where a worker puts out windows that lack something, whether its task
    has a replica or not; a copy on standby puts out nothing.

    Each receiver asks one copy of a task. Two may be active at once, when their receivers ask different ones.
    """
    replicated = {WorkerId.parse(name).primary for name in workers if WorkerId.parse(name).copy}
    found = {}
    for name, worker in workers.items():
        stats = worker.get("stats") or {}
        if worker.get("state") != "up":
            continue
        stands_by = stats.get("standby") if WorkerId.parse(name).primary in replicated else None
        if stats.get("tentative_now") and not stands_by:
            found[name] = TENTATIVE
        elif stands_by is not None:
            found[name] = STANDBY if stands_by else ACTIVE
    return found


def running(workers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The replicas that are to run, of the controller's `workers`."""
    return [name for name, one in workers.items() if WorkerId.parse(name).copy and one.get("state") != OFF]


def summed_up(
    workers: Mapping[str, Mapping[str, Any]], events: Iterable[Mapping[str, Any]], compared: int
) -> dict[str, Any]:
    """For `summary.json`: the replicas `planned` in the end, how many windows they have `compared`, each takeover,
    `rebuilt`, copies that lagged and began anew, once for each time, and where replicas have changed, those that have
    `begun` and `ended` while the job ran. Of a takeover `worker` is the task, `promoted` the copy that
    was asked for its output from then on, `at` monotonic seconds of its host. Empty for a job without replicas."""
    events = list(events)
    begun, ended = (
        [event["worker"] for event in events if event.get("event") == name and "worker" in event]
        for name in ("replica_begins", "replica_ends")
    )
    planned = running(workers)
    if not planned and not begun and not ended:
        return {}
    changed = {"begun": begun, "ended": ended} if begun or ended else {}
    takeovers = [
        {
            "at": event.get("monotonic"),
            "worker": str(WorkerId.parse(event["worker"]).primary),
            "promoted": event["worker"],
        }
        for event in events
        if event.get("event") == "took_over" and "worker" in event
    ]
    rebuilt = [event["worker"] for event in events if event.get("event") == "overtaken" and "worker" in event]
    return {"planned": planned, "windows_compared": compared, "takeovers": takeovers, "rebuilt": rebuilt} | changed
