"""Faults that are injected into a job: the action, its target, and its moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.controller.victims import names_hosts

WORKER_ACTIONS = ("kill", "stop", "slow")
"""The actions of an agent on its own workers."""


@dataclass(frozen=True)
class When:
    """The moment of a fault: `kind` is epoch, items, seconds or %."""

    kind: str
    value: float

    def __str__(self) -> str:
        return f"{self.value:.15g}%" if self.kind == "%" else f"{self.kind}={self.value:.15g}"


@dataclass(frozen=True)
class Fault:
    """One fault as it was asked for. `target` is a worker id, a service, `random:STAGE`, or a group (victims.py).

    `backup.2` reads like a worker id; which of the two it is depends on the topology.
    """

    action: str
    target: str
    when: When
    for_s: float = 0.0
    cpu: float = 0.0

    def __str__(self) -> str:
        text = f"{self.action}:{self.target}@{self.when}"
        text += f",for={self.for_s:.15g}s" if self.for_s else ""
        return text + (f",cpu={self.cpu:.15g}" if self.cpu else "")

    def fields(self) -> dict[str, Any]:
        """The fault as a part of a submission."""
        when = {"kind": self.when.kind, "value": self.when.value}
        return {"action": self.action, "target": self.target, "when": when, "for_s": self.for_s, "cpu": self.cpu}

    @classmethod
    def read(cls, fields: Any) -> Fault:
        """Read a fault that `fields` wrote; ConfigError for anything else."""
        try:
            when = When(str(fields["when"]["kind"]), float(fields["when"]["value"]))
            for_s, cpu = float(fields["for_s"]), float(fields["cpu"])
            fault = cls(str(fields["action"]), str(fields["target"]), when, for_s, cpu)
        except (TypeError, KeyError, ValueError) as error:
            raise ConfigError(f"not a fault: {fields!r:.100}", "use `riprap submit --fault`") from error
        if fault.action not in WORKER_ACTIONS or when.kind not in ("epoch", "items", "seconds"):
            raise ConfigError(f"fault '{fault}' cannot be injected by an agent", "use `riprap submit --fault`")
        return fault


def check_hosts_are_killed(fault: Fault) -> None:
    """ConfigError for hosts of a cluster that are hit in another way."""
    if names_hosts(fault.target) and fault.action != "kill":
        raise ConfigError(
            f"fault '{fault}': an agent of a cluster that is stopped cannot go on by itself",
            f"use kill:{fault.target}, or `riprap run --hosts`",
        )


@dataclass(frozen=True)
class JobProgress:
    """Progress of a job, as far as faults care; `seconds` (since the first item) is negative before that item."""

    epochs: int = 0
    items: int = 0
    seconds: float = -1.0


def is_due(when: When, progress: JobProgress) -> bool:
    """True when the moment has come; `%` must have been turned into items."""
    return {"epoch": progress.epochs, "items": progress.items, "seconds": progress.seconds}[when.kind] >= when.value


def read_faults(topology: Mapping[str, Any]) -> tuple[Fault, ...]:
    """The faults that a submission orders."""
    return tuple(Fault.read(fields) for fields in topology.get("faults") or ())
