"""The leader's wishes for each job on one host, as its agent reads it from desired states."""

from __future__ import annotations

from typing import Any, NamedTuple

from riprap.codec.errors import ConfigError, FrameError
from riprap.codec.ids import JOB_NAME, WorkerId
from riprap.codec.trust.paths import problem_with_path
from riprap.controller import messages
from riprap.controller.deltas import DeltaReader, Gap
from riprap.controller.faults import Fault
from riprap.controller.messages import Message


class Order(NamedTuple):
    """A fault to be injected into one incarnation, and into its agent too if `with_agent`.

    `number` tells the faults of a job apart.
    """

    number: int
    incarnation: int
    fault: Fault
    with_agent: bool = False


class Wish(NamedTuple):
    """The leader's wish for one job on this host."""

    submission: str
    """Tells it from an earlier job of that name."""
    run_dir: str
    topology: dict[str, Any]
    workers: dict[str, int]
    """The incarnation of each worker that may run here."""
    stopping: bool
    view: Message
    """Its revision, its phase, and `workers`: those that workers of this host must know."""
    faults: tuple[Order, ...] = ()

    @property
    def orders(self) -> tuple[Any, ...]:
        """All but the view."""
        return self.submission, self.workers, self.stopping, self.faults


class Wishes:
    """The newest desired state that has arrived, of the newest leader."""

    def __init__(self) -> None:
        self.term = 0
        self.sequence = 0
        self.behind = False
        """True when a later one has been missed: the leader must send the whole."""
        self._reader = DeltaReader()

    def take(self, message: Message) -> dict[str, Wish] | None:
        """All jobs after a message, None when it brought nothing new. Raises FrameError when it is malformed."""
        term = messages.count(message, "term")
        if term < self.term:
            return None  # of a deposed leader
        if term > self.term:
            self.term, self.sequence, self._reader = term, 0, DeltaReader()
        try:
            state = self._reader.decode(message)
        except Gap:
            self.behind = True
            return None
        if state is None:
            return None  # overtaken
        if bad := [name for name in state if not JOB_NAME.fullmatch(str(name))]:
            raise FrameError(f"{bad[0]!r} is not a job name")
        wishes = {name: read_wish(job) for name, job in state.items()}
        self.sequence, self.behind = self._reader.number, False
        return wishes


def read_wish(job: Any) -> Wish:
    """Check a job of a desired state; raises FrameError."""
    if not isinstance(job, dict):
        raise FrameError("a job of the desired state is a map")
    workers, view = messages.mapping(job, "workers"), messages.mapping(job, "view")
    messages.count(view, "revision")
    messages.text(view, "phase")
    if "horizon" in view and not _is_horizon(view["horizon"]):
        raise FrameError("the horizon of a view is a count, and whether it is final")
    if "checkpoint" in view and not _is_checkpoint(view["checkpoint"]):
        raise FrameError("the checkpoint of a view is the one under way, and the newest that is whole")
    if "savepoint" in view and (problem := problem_with_path(messages.text(view, "savepoint"))):
        raise FrameError(f"the directory of a savepoint: {problem}")
    messages.count(view, "round", 0)
    if not all(isinstance(entry, dict) for entry in messages.mapping(view, "workers").values()):
        raise FrameError("a worker of a view is a map")
    for worker in workers:
        _check_worker(worker)
        messages.count(workers, worker)
    stopping = job.get("stopping") is True
    faults = tuple(map(_read_order, job.get("faults") or ()))
    submission, run_dir = messages.text(job, "submission", ""), messages.text(job, "run_dir")
    if problem := problem_with_path(run_dir):
        raise FrameError(f"the run directory {run_dir!r}: {problem}")
    topology = messages.mapping(job, "topology")
    messages.count(topology, "attempt", 1)
    return Wish(submission, run_dir, topology, workers, stopping, view, faults)


def _is_horizon(value: Any) -> bool:
    return isinstance(value, list) and [item.__class__ for item in value] == [int, bool]


def _is_checkpoint(value: Any) -> bool:
    return isinstance(value, list) and [item.__class__ for item in value] == [int, int] and min(value) >= 0


def _check_worker(name: object) -> None:
    """A worker's name becomes the name of a file."""
    try:
        WorkerId.parse(str(name))
    except ValueError as error:
        raise FrameError(str(error)) from error


def _read_order(order: Any) -> Order:
    if not isinstance(order, dict):
        raise FrameError("an order is a map")
    try:
        fault = Fault.read(order.get("fault"))
    except ConfigError as error:
        raise FrameError(str(error)) from error
    number, incarnation = messages.count(order, "number"), messages.count(order, "incarnation")
    return Order(number, incarnation, fault, order.get("with_agent") is True)
