"""Where the experiments run their jobs: on this host alone, or each worker on a host of its own with shaped links."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.hosts_cluster import HostsCluster
from bench.namespaces import Hosts
from bench.runs import run
from codec.errors import ConfigError

Job = Callable[[str, Sequence[str]], dict[str, Any]]
"""Runs a topology with overrides; its summary."""


@contextlib.contextmanager
def this_host() -> Iterator[Job]:
    """`riprap run`, everything on this machine, over ipc."""
    yield lambda config, sets: run(config, sets).summary


@contextlib.contextmanager
def namespaces(hosts: int, rate_mbit: int, slow: dict[str, int] | None = None) -> Iterator[Job]:
    """A cluster of so many namespaces, each link limited in both directions; a backup server is on the hub.

    `slow` gives single workers another rate, in Mbit/s. ConfigError where namespaces are not permitted.
    """
    with (
        tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder,
        Hosts(hosts, rate_mbit) as made,
        HostsCluster(made, Path(folder)) as cluster,
    ):
        cluster.start_backup()

        def job(config: str, sets: Sequence[str]) -> dict[str, Any]:
            return cluster.run(config, list(sets), slow or {})

        yield job


def places(local: bool, hosts: int, rate_mbit: int, slow: dict[str, int] | None = None) -> Iterator[tuple[str, Any]]:
    """The name of each place to measure in, and its context; says why where namespaces cannot be had."""
    if local:
        yield "one host", this_host()
    try:
        with Hosts(1):
            pass
    except ConfigError as error:
        print(f"only this host is measured: {error.args[0]}; {error.remedy}", flush=True)
        return
    yield f"{hosts} namespaces, {rate_mbit} Mbit/s", namespaces(hosts, rate_mbit, slow)


def measure(
    title: str, context: Any, rounds: int, cases: dict[str, tuple[str, list[str]]]
) -> dict[str, list[dict[str, Any]]]:
    """Run all cases (name -> topology and overrides) round by round, so that a slow hour is slow for all."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    with context as job:
        for number in range(rounds):
            for name, (config, sets) in cases.items():
                summary = job(config, sets)
                found[name].append(summary)
                speed = summary["items_per_second"] / 1e6
                print(f"{title}, round {number + 1}: {name}: {speed:.3f} M items/s", flush=True)
    return found


def speeds(summaries: Sequence[dict[str, Any]]) -> list[float]:
    """Items per second of some runs."""
    return [summary["items_per_second"] for summary in summaries]


def cores(summaries: Sequence[dict[str, Any]]) -> float:
    """Cores that the workers of the last run used, its start included."""
    last = summaries[-1]
    return float(sum(last["cpu_seconds"].values()) / last["seconds"])
