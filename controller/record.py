"""The durable part of a job: all that must be in ZooKeeper before it is acted on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from riprap.codec.errors import DataError
from riprap.codec.ids import Incarnation, WorkerId
from riprap.codec.json_text import to_json
from riprap.controller.checkpoints import Marks
from riprap.controller.horizon import Horizon
from riprap.controller.phases import Phase

VERSION = 1  # of what is written about a job; another one is not read
REMEDY = "use the riprap that wrote it, or `riprap forget` the job"
ZNODE_BYTES_MAX = 1_000_000  # ZooKeeper's jute.maxbuffer is 1 MiB, path and all


class Assignment(NamedTuple):
    """One incarnation of a worker, given to one process of a host's agent."""

    incarnation: Incarnation
    host: str
    instance: str


UNASSIGNED = Assignment(Incarnation(0), "", "")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as decided. Invariant: no worker is started with an incarnation that is not in the stored record.

    `failures` are its losses so far and `final` its last status; they ride along for those who ask after a failover.
    `started_at` is on the `clock` (codec/clock.py) of the controller that took the job. `injected` are the faults that
    agents are ordered to inject.
    """

    phase: Phase = Phase.SUBMITTED
    error: str = ""
    remedy: str = ""
    tasks: dict[WorkerId, Assignment] = field(default_factory=dict)
    started_at: float = 0.0
    failures: tuple[dict[str, Any], ...] = ()
    final: dict[str, Any] | None = None
    injected: tuple[dict[str, Any], ...] = ()
    clock: str = ""
    horizon: Horizon | None = None
    """Limit of the sources; None where the stream has an end of its own."""
    round: int = 0
    """Times that all workers were rolled back."""
    checkpoints: Marks | None = None
    """The marks of a job whose scheme makes checkpoints."""
    unsettled: frozenset[WorkerId] = frozenset()
    """Those that went back alone, to the last whole checkpoint: until the next one is whole."""
    replicas: frozenset[WorkerId] | None = None
    """The replicas that are to run; None before any others than the topology's were asked for."""
    writers: frozenset[WorkerId] = frozenset()
    """The replicas of destinations that write the output in place of their primaries."""
    parting: str = ""
    """The directory of the savepoint that the job ends with, which is its newest whole checkpoint; empty for none."""

    def decides(self) -> tuple[Any, ...]:
        """The part of which a change must be stored before it is acted on."""
        return (
            self.phase,
            self.error,
            self.remedy,
            self.tasks,
            self.injected,
            self.horizon,
            self.round,
            self.checkpoints,
            self.unsettled,
            self.replicas,
            self.writers,
            self.parting,
        )

    def to_json(self, term: int) -> bytes:
        """The record as its znode holds it, marked with the term of the leader that writes it."""
        tasks = {str(worker): assignment for worker, assignment in self.tasks.items()}
        head = {
            "version": VERSION,
            "term": term,
            "phase": self.phase,
            "error": self.error,
            "remedy": self.remedy,
            "tasks": tasks,
        }
        fields = {**head, "started_at": self.started_at, "failures": self.failures}
        fields |= {"injected": self.injected, "clock": self.clock, "horizon": self.horizon, "round": self.round}
        fields |= {"checkpoints": self.checkpoints, "unsettled": sorted(map(str, self.unsettled))}
        fields |= {} if self.replicas is None else {"replicas": sorted(map(str, self.replicas))}
        fields |= {"writers": sorted(map(str, self.writers))} if self.writers else {}
        fields |= {"parting": self.parting} if self.parting else {}
        data = to_json({**fields, "final": self.final}).encode()
        if len(data) > ZNODE_BYTES_MAX:  # the last status is a convenience, the rest is not
            data = to_json({**fields, "final": None}).encode()
        return data

    @classmethod
    def from_json(cls, data: bytes, path: str) -> tuple[JobRecord, int]:
        """The record and the term of its writer; DataError names the znode when it holds something else."""
        try:
            fields = json.loads(data)
            check_version(fields)
            tasks = {WorkerId.parse(worker): _assignment(*entry) for worker, entry in fields["tasks"].items()}
            failures = tuple(_failure(failure) for failure in fields["failures"])
            final = fields["final"] if fields["final"] is None else dict(fields["final"])
            texts = str(fields["error"]), str(fields["remedy"])
            later = tuple(fields.get("injected", ())), str(fields.get("clock", ""))
            horizon = _horizon(fields.get("horizon"))
            record = cls(
                Phase(fields["phase"]), *texts, tasks, float(fields["started_at"]), failures, final, *later, horizon,
                int(fields.get("round", 0)), _marks(fields.get("checkpoints")),
                frozenset(map(WorkerId.parse, fields.get("unsettled", ()))), _replicas(fields.get("replicas")),
                frozenset(map(WorkerId.parse, fields.get("writers", ()))), str(fields.get("parting", "")),
            )  # fmt: skip
            return record, int(fields["term"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"znode {path} is not a job's state: {error!r}", REMEDY) from error


def check_version(fields: Any) -> None:
    """Raise ValueError unless a map in a znode was written in our way; AttributeError when it is no map."""
    version = fields.get("version", VERSION)
    if version != VERSION:
        raise ValueError(f"it is of version {version!r}, and this riprap reads version {VERSION}")


def _assignment(incarnation: Any, host: Any, instance: Any) -> Assignment:
    return Assignment(Incarnation(int(incarnation)), str(host), str(instance))


def _horizon(fields: Any) -> Horizon | None:
    return None if fields is None else Horizon(int(fields[0]), *map(bool, fields[1:3]))


def _marks(fields: Any) -> Marks | None:
    return None if fields is None else Marks(int(fields[0]), int(fields[1]))


def _replicas(names: Any) -> frozenset[WorkerId] | None:
    return None if names is None else frozenset(map(WorkerId.parse, names))


def _failure(fields: Any) -> dict[str, Any]:
    WorkerId.parse(fields["worker"])
    return {**fields, "incarnation": int(fields["incarnation"])}
