"""The steps that a scheme's plan for lost workers is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from riprap.codec.errors import JobFailed
from riprap.codec.ids import WorkerId
from riprap.controller.view import View


@dataclass(frozen=True, slots=True)
class Fence:
    """Shut the old incarnation out: its peers hear that it is down, its agent kills it if it still runs."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Respawn:
    """Start the next incarnation, on the same host where possible; comes after the worker's Fence."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Announce:
    """Let the peers see the new incarnation as up as soon as it is ready; comes after the worker's Respawn."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Rollback:
    """All workers begin anew from what they have saved, or from the last whole checkpoint where there are any,
    survivors within their processes; once in a plan, at its end.

    The job enters its next round: what was sent before is refused from then on, though its sender lives.
    """

    reason: str = ""
    """The cause, where the scheme would rather have done something else."""


Step = Fence | Respawn | Announce | Rollback

Plan = Callable[[View, Collection[WorkerId]], list[Step]]
"""The plan after the loss of the workers in `lost`: a pure function, called once per loss, never with none lost.

`view` is the state of the job just before. Raises Unrecoverable when the scheme cannot restore one of them.
"""

PlanFor = Callable[[dict[str, Any]], Plan]
"""The plan of a job, from its topology; raises a RiprapError when the topology names no scheme that is known."""


class Unrecoverable(JobFailed):
    """A plan's verdict that a lost worker cannot be restored; it fails the job."""

    def __init__(self, worker: WorkerId, message: str, remedy: str = "") -> None:
        super().__init__(f"{worker}: {message}", remedy)
        self.worker = worker


def restart_lost(view: View, lost: Collection[WorkerId]) -> list[Step]:
    """The plan of schemes that restart the lost workers and let the links heal the rest."""
    return [step for worker in sorted(lost) for step in (Fence(worker), Respawn(worker), Announce(worker))]


def restart_lost_for(topology: dict[str, Any]) -> Plan:
    """The plan-maker for which every topology is restarted in place."""
    return restart_lost
