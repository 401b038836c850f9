"""What the leader wants of one job on one host, as its agent reads it from a desired state."""

from __future__ import annotations

from typing import Any, NamedTuple

from codec.errors import FrameError
from controller import messages
from controller.messages import Message


class Wish(NamedTuple):
    """What the leader wants of one job on this host."""

    run_dir: str
    topology: dict[str, Any]
    workers: dict[str, int]
    """The incarnation of each worker that may run here."""
    stopping: bool
    view: Message


def read_wish(job: Any) -> Wish:
    """Check a job of a desired state; raises FrameError."""
    if not isinstance(job, dict):
        raise FrameError("a job of the desired state is a map")
    workers, view = messages.mapping(job, "workers"), messages.mapping(job, "view")
    messages.count(view, "revision")
    for worker in workers:
        messages.count(workers, worker)
    stopping = job.get("stopping") is True
    return Wish(messages.text(job, "run_dir"), messages.mapping(job, "topology"), workers, stopping, view)
