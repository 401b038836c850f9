"""Runs a job and kills processors of it, on one host or in namespaces; the results have the same form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import measures
from bench.hosts_cluster import HostsCluster
from bench.runs import run

PARTS = ("detected", "restored", "caught up")


@dataclass(frozen=True)
class Killed:
    """A completed job: its summary, its epochs as (committed at, latency in ms), and the moments of the kills."""

    summary: dict[str, Any]
    epochs: list[tuple[float, float]]
    kills: list[float]
    stalls_ms: list[float] = field(init=False)
    usual_gap_ms: float = field(init=False)

    def __post_init__(self) -> None:
        commits = [committed_at for committed_at, _ in self.epochs]
        object.__setattr__(self, "stalls_ms", measures.stalls_ms(commits, self.kills))
        object.__setattr__(self, "usual_gap_ms", measures.usual_gap_ms(commits, self.kills))

    @property
    def worst_latencies_ms(self) -> list[float]:
        """The worst latency of each kill."""
        return measures.worst_latencies_ms(self.epochs, self.kills)

    def parts_ms(self) -> dict[str, list[float | None]]:
        """Times of each killed worker's recovery, from the kill; None where it was not restored before the end."""
        failures = [failure for failure in self.summary["failures"] if failure["action"] == "kill"]
        return {part: [failure[f"{part.replace(' ', '_')}_ms"] for failure in failures] for part in PARTS}

    def figures(self) -> dict[str, Any]:
        """The figures of it that are kept."""
        return {"usual_gap_ms": self.usual_gap_ms, "stalls_ms": self.stalls_ms, "worst_ms": self.worst_latencies_ms}


Kills = Mapping[int, Sequence[str]]
"""The workers to kill, by the number of epochs before."""
Killing = Callable[[str, Sequence[str], Kills], Killed]


def on_this_host(config: str, sets: Sequence[str], kills: Kills) -> Killed:
    """`riprap run` with faults."""
    faults = [f"kill:{worker}@epoch={epoch}" for epoch, workers in kills.items() for worker in workers]
    done = run(config, sets, faults)
    moments: list[float] = []
    injected = sorted(one["injected_at"] for one in done.summary["failures"] if one["action"] == "kill")
    at_once = max(map(len, kills.values()), default=1)
    moments += injected[::at_once]
    if len(injected) != len(faults):
        raise RuntimeError(f"{len(injected)} of {len(faults)} kills were injected")
    return Killed(done.summary, [(committed_at, latency) for _, _, latency, committed_at in done.epochs], moments)


def in_namespaces(cluster: HostsCluster) -> Killing:
    """The same on a cluster."""

    def killed(config: str, sets: Sequence[str], kills: Kills) -> Killed:
        summary, rows, moments = cluster.run_killing(config, list(sets), kills)
        return Killed(summary, [(row.committed_at, row.latency_ms) for row in rows], moments)

    return killed
