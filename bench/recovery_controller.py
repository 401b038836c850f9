"""The speed at which the control plane alone detects a kill and brings a replacement up.

`python bench/recovery_controller.py [KILLS]` runs toy workers on a real ZooKeeper, controller and agent. Every number
is the median of the kills, in milliseconds since the SIGKILL. It also prints how long a killed leader is missed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests" / "cluster")]

from cluster_harness import Cluster, await_that, topology  # noqa: E402

from riprap.controller.zookeeper import EmbeddedZooKeeper  # noqa: E402

STEPS = ("detected_at", "respawned_at", "restored_at", "first_item_at")
FAILOVERS = 5


def measure_kills(cluster: Cluster, kills: int) -> list[dict[str, float]]:
    """Kill a processor `kills` times; returns the time from each kill to the steps of its recovery."""
    results = []
    for number in range(1, kills + 1):
        worker = f"processor.{number % 3}"
        status = cluster.until(
            "all up", lambda s: s["phase"] == "RUNNING" and all(w["items"] for w in s["workers"].values())
        )
        killed_at = cluster.kill(status["workers"][worker]["pid"])
        status = cluster.until(
            "the replacement's first item",
            lambda s, number=number: len(s["failures"]) == number and s["failures"][-1]["first_item_at"] is not None,
        )
        results.append({step: (status["failures"][-1][step] - killed_at) * 1e3 for step in STEPS})
    return results


def measure_failovers(cluster: Cluster, leader: subprocess.Popen[bytes]) -> list[float]:
    """Kill the leader while a standby waits; returns the milliseconds until another answers."""
    results = []
    for _ in range(FAILOVERS):
        before = cluster.status()["controller"]
        standby = cluster.start("controller")
        await_that("the standby to stand by", lambda standby=standby: cluster.log_of(standby).read_text(), 10)
        started = time.monotonic()
        leader.kill()
        cluster.until("another leader", lambda s, before=before: s["controller"] != before)
        results.append((time.monotonic() - started) * 1e3)
        leader = standby
    return results


def print_medians(results: list[dict[str, float]]) -> None:
    """One line a step of the recovery."""
    print(f"ms after SIGKILL, {len(results)} kills {'median':>8} {'min':>8} {'max':>8}")
    for step in STEPS:
        values = [result[step] for result in results]
        print(f"  {step:<24} {statistics.median(values):8.1f} {min(values):8.1f} {max(values):8.1f}")


def main() -> None:
    """Run both, print medians and extremes."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedZooKeeper(Path(folder) / "zookeeper") as server,
        Cluster(server.connect_string, Path(folder)) as cluster,
    ):
        leader, _ = cluster.start_both()
        cluster.run(topology())
        print_medians(measure_kills(cluster, kills))
        missed = measure_failovers(cluster, leader)
        median = statistics.median(missed)
        print(f"leader missed, {len(missed)} kills {median:10.0f} {min(missed):8.0f} {max(missed):8.0f}")


if __name__ == "__main__":
    main()
