"""The core's actions on the outside world; performing one twice does no harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riprap.controller.jobspec import JobSpec
from riprap.controller.messages import Message
from riprap.controller.record import JobRecord


@dataclass(frozen=True, slots=True)
class Persist:
    """Write a job's record, and with `create` its spec; answer with `persisted` or `persist_failed`."""

    spec: JobSpec
    record: JobRecord
    create: bool
    log: Log | None = None
    """The line about what the record decides: appended once that is written, and not persisted without it."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to the agent of that instance; it may be lost."""

    instance: str
    message: Message


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a client's request, by the `ticket` that it was handed in with."""

    ticket: Any
    result: Any


@dataclass(frozen=True, slots=True)
class Log:
    """Append an event to a log of the job; with `synced`, on disk before anything that follows is done."""

    run_dir: str
    event: str
    fields: dict[str, Any]
    file: str = "events.jsonl"
    synced: bool = False


@dataclass(frozen=True, slots=True)
class SumUp:
    """A job has ended, durably, with this status: sum it up."""

    spec: JobSpec
    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Purge:
    """Remove a job's nodes; answer with `purged` or `purge_failed`."""

    name: str


Action = Persist | Send | Reply | Log | SumUp | Purge
