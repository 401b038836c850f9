"""The durable part of a job: what must be in ZooKeeper before it is acted on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from codec.errors import DataError
from codec.ids import Incarnation, WorkerId
from controller.phases import Phase

ZNODE_BYTES_MAX = 1_000_000  # ZooKeeper's jute.maxbuffer is 1 MiB, path and all


class Assignment(NamedTuple):
    """One incarnation of a worker, given to one process of a host's agent."""

    incarnation: Incarnation
    host: str
    instance: str


UNASSIGNED = Assignment(Incarnation(0), "", "")


@dataclass(frozen=True, slots=True)
class Record:
    """A job as decided. Invariant: no worker is started with an incarnation that is not in the stored record.

    `failures` are its losses so far and `final` its last status; they ride along for those who ask after a failover.
    `started_at` is time.monotonic() of the controller that took the job.
    """

    phase: Phase = Phase.SUBMITTED
    error: str = ""
    remedy: str = ""
    tasks: dict[WorkerId, Assignment] = field(default_factory=dict)
    started_at: float = 0.0
    failures: tuple[dict[str, Any], ...] = ()
    final: dict[str, Any] | None = None

    def decides(self) -> tuple[Any, ...]:
        """The part whose change must be stored before it is acted on."""
        return self.phase, self.error, self.remedy, self.tasks

    def to_json(self, term: int) -> bytes:
        """The record as its znode holds it, marked with the term of the leader that writes it."""
        tasks = {str(worker): assignment for worker, assignment in self.tasks.items()}
        head = {"term": term, "phase": self.phase, "error": self.error, "remedy": self.remedy, "tasks": tasks}
        fields = {**head, "started_at": self.started_at, "failures": self.failures}
        data = json.dumps({**fields, "final": self.final}, default=str).encode()
        if len(data) > ZNODE_BYTES_MAX:  # the last status is a convenience, the rest is not
            data = json.dumps({**fields, "final": None}, default=str).encode()
        return data

    @classmethod
    def from_json(cls, data: bytes, path: str) -> tuple[Record, int]:
        """The record and the term of its writer; DataError names the znode when it holds something else."""
        try:
            fields = json.loads(data)
            tasks = {
                WorkerId.parse(worker): Assignment(Incarnation(int(incarnation)), str(host), str(instance))
                for worker, (incarnation, host, instance) in fields["tasks"].items()
            }
            record = cls(
                Phase(fields["phase"]),
                fields["error"],
                fields["remedy"],
                tasks,
                float(fields["started_at"]),
                tuple(fields["failures"]),
                fields["final"],
            )
            return record, int(fields["term"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"znode {path} is not a job's state: {error}", f"remove it with `deleteall {path}`"
            ) from error
