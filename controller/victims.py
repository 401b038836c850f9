"""Targets of faults that name many at once: a host, a failure domain, a stage, all that process the job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from riprap.codec.errors import ConfigError
from riprap.codec.ids import LABEL_PART, STAGE_NAME, WorkerId
from riprap.configs.problems import suggestion
from riprap.controller.labels import HOST, HOST_NAME, HostLabels

PRIMARIES = "primaries"
GROUPS = ("host:NAME", "domain:LABEL=VALUE", "stage:NAME", PRIMARIES)
_GROUP = re.compile(
    rf"{PRIMARIES}|host:{HOST_NAME.pattern}|stage:{STAGE_NAME.pattern}"
    rf"|domain:{LABEL_PART.pattern}=({HOST_NAME.pattern})"
)


def is_group(target: str) -> bool:
    """True for a target in one of the forms of GROUPS."""
    return _GROUP.fullmatch(target) is not None


def names_hosts(target: str) -> bool:
    """True for a group whose agents are hit with their workers."""
    return target.startswith(("host:", "domain:"))


def check_group(target: str, stages: Collection[str], hosts: Mapping[str, HostLabels]) -> None:
    """ConfigError where a group names no host, domain or stage that there is; it lists those that there are."""
    kind, _, name = target.partition(":")
    known = {
        "host": list(hosts),
        "domain": sorted({f"{key}={value}" for labels in hosts.values() for key, value in labels.items()}),
        "stage": list(stages),
    }.get(kind)
    if known is not None and name not in known:
        there = ", ".join(known) or "none now"
        raise ConfigError(
            f"there is no {kind} {name}; there are: {there}", suggestion(name, known) or f"name one of these {kind}s"
        )


def hosts_in(target: str, hosts: Mapping[str, HostLabels]) -> list[str]:
    """The hosts that a group names; none where it names workers alone."""
    if not names_hosts(target):
        return []
    kind, _, name = target.partition(":")
    key, _, value = (HOST, "", name) if kind == "host" else name.partition("=")
    return [host for host, labels in hosts.items() if labels.get(key) == value]


def workers_in(target: str, workers: Mapping[str, str], hosts: Mapping[str, HostLabels]) -> list[str]:
    """The workers of a group; `workers` has the host of each."""
    if target == PRIMARIES:
        return primaries(workers)
    if names_hosts(target):
        inside = hosts_in(target, hosts)
        return [worker for worker, host in workers.items() if host in inside]
    stage = target.removeprefix("stage:")
    return [worker for worker in workers if worker.rpartition(".")[0] == stage]


def primaries(workers: Iterable[str]) -> list[str]:
    """Those that process the job, as opposed to active replicas, which stand by for others."""
    return [worker for worker in workers if not WorkerId.parse(worker).copy]
