"""The places where experiments run jobs: this host alone, or each worker on a host of its own with shaped links."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.hosts_cluster import HostsCluster
from bench.measures import bytes_per_item
from bench.namespaces import Hosts
from bench.rounds import Found, Ratio, alternate, ratio
from bench.runs import run
from riprap.codec.errors import ConfigError

BACKUPS = 2
Job = Callable[[str, Sequence[str]], dict[str, Any]]
"""Runs a topology with overrides; returns its summary."""


@contextlib.contextmanager
def this_host() -> Iterator[Job]:
    """`riprap run`, everything on this machine, over ipc."""
    yield lambda config, sets: run(config, sets).summary


@contextlib.contextmanager
def cluster_of(hosts: int, rate_mbit: int) -> Iterator[HostsCluster]:
    """The cluster itself."""
    with (
        tempfile.TemporaryDirectory(prefix="riprap-bench-") as folder,
        Hosts(hosts + BACKUPS, rate_mbit) as made,
        HostsCluster(made, Path(folder), BACKUPS) as cluster,
    ):
        yield cluster


@contextlib.contextmanager
def namespaces(hosts: int, rate_mbit: int, slow: dict[str, int] | None = None) -> Iterator[Job]:
    """Workers in `hosts` namespaces, each link limited in both directions, and a backup server in two more.

    `slow` gives single workers another rate, in Mbit/s. ConfigError where namespaces are not permitted.
    """
    with cluster_of(hosts, rate_mbit) as cluster:

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
    """Run all cases (name -> topology and overrides) in turn; returns the summaries of each case, one a round.

    RuntimeError when a run does not complete: a table with holes is none.
    """
    with context as job:
        found = alternate(title, cases, lambda case: job(*case), rounds)
    failed = [why for case in found.values() for why in case.failed]
    if failed:
        raise RuntimeError(failed[0])
    return {name: case.done for name, case in found.items()}


def ratio_of(ours: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> Ratio:
    """The ratios of the throughputs, round by round."""
    return ratio(Found(list(ours)), Found(list(others)), lambda summary: summary["items_per_second"])


def bytes_cells(summary: dict[str, Any], edges: Sequence[str]) -> list[str]:
    """Bytes an item over each edge: copied, and by reference."""
    return [" + ".join(f"{count:.3g}" for count in bytes_per_item(summary, edge)) for edge in edges]


def speeds(summaries: Sequence[dict[str, Any]]) -> list[float]:
    """Items per second of some runs."""
    return [summary["items_per_second"] for summary in summaries]


def cores(summaries: Sequence[dict[str, Any]]) -> float:
    """Cores that the workers of the last run used, its start included."""
    last = summaries[-1]
    return float(sum(last["cpu_seconds"].values()) / last["seconds"])
