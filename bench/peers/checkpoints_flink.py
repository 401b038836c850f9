"""Flink's own checkpoints, aligned and unaligned, on two jobs whose state they hold; settings and runs of one case."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers import setup
from bench.peers.checkpoints_jobs import KEYED, NONE, Measured, Stream, first_outputs_ms, rate_of
from bench.peers.processes import Processes, wait_for, workspace
from bench.peers.recovery_flink import INTERVAL, TUNED, Cluster
from bench.peers.recovery_times import Output, parse_outputs

START_TIMEOUT_S, KILL_TIMEOUT_S = 180.0, 90.0
AFTER_S = 3.0
"""Seconds from the first new outputs behind a kill to the next one."""
ROOM = {
    "taskmanager.memory.process.size": "4g",
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.numberOfTaskSlots": "2",
}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}
CASES = {
    NONE: {},
    "aligned, 1 s": {INTERVAL: "1 s"},
    "aligned, 100 ms": {INTERVAL: "100 ms"},
    "unaligned, 1 s": {INTERVAL: "1 s", **UNALIGNED},
    "unaligned, 100 ms": {INTERVAL: "100 ms", **UNALIGNED},
}
ROCKSDB = "RocksDB, "
INCREMENTAL = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
OF_ROCKSDB = {f"{ROCKSDB}{name}": {**CASES[name], **INCREMENTAL} for name in (NONE, "aligned, 1 s", "aligned, 100 ms")}
"""State that is large: changes alone are written, where the state on the heap is written whole."""


def cases(stream: Stream) -> dict[str, dict[str, str]]:
    """Settings by name, those without checkpoints among them."""
    return {**CASES, **OF_ROCKSDB} if stream.kind == KEYED else CASES


@dataclass
class Job:
    """A running job: its cluster, and the files of its counters' outputs."""

    cluster: Cluster
    identity: str
    output: Path

    def outputs(self) -> list[list[Output]]:
        """Those of each counter so far."""
        return [parse_outputs(file.read_text()) for file in sorted(self.output.parent.glob(f"{self.output.name}-*"))]

    def await_outputs(self, counters: int, highest: list[int], after: float, timeout_s: float) -> None:
        """Until each counter has put out what it had not before. TimeoutError when it does not."""

        def there() -> bool:
            found = self.outputs()
            fresh = zip(found, highest, strict=False)
            return len(found) == counters and all(
                any(one.number > most and one.at > after for one in outputs) for outputs, most in fresh
            )

        wait_for(there, timeout_s, "output of every counter of Flink")


@contextmanager
def cluster_place() -> Iterator[tuple[Processes, Path]]:
    """A workspace in which it is a RuntimeError when Flink does not go on."""
    try:
        with workspace(setup.HOME) as place:
            yield place
    except OSError as error:  # a TimeoutError is one, too
        raise RuntimeError(str(error)) from error


def begin(processes: Processes, folder: Path, stream: Stream, settings: dict[str, str], rate: int) -> Job:
    """Start a cluster and the job, and wait for its first outputs."""
    cluster = Cluster(processes, folder, {**TUNED, **ROOM, **settings})
    cluster.start()
    output = folder / "output"
    words = [stream.kind, stream.size, rate, stream.counts_an_output(rate), output, *stream.files]
    job = Job(cluster, cluster.submit(["Checkpointed", *map(str, words)]), output)
    job.await_outputs(stream.counters, [0] * stream.counters, 0.0, START_TIMEOUT_S)
    return job


def run_freely(stream: Stream, settings: dict[str, str], seconds: float) -> Measured:
    """At full speed for that long behind a warm-up as long. RuntimeError where it does not go on."""
    with cluster_place() as (processes, folder):
        job = begin(processes, folder, stream, settings, 0)
        time.sleep(seconds)
        began, spent = time.time(), job.cluster.cpu_seconds()
        time.sleep(seconds)
        ended, spent = time.time(), job.cluster.cpu_seconds() - spent
        made = job.cluster.ask(f"jobs/{job.identity}/checkpoints") if INTERVAL in settings else None
        outputs = job.outputs()
    rate = sum(stream.counts_an_output(0) * rate_of(one, began, ended) for one in outputs)
    cpu = spent / (rate * (ended - began))
    if made is None or not made["counts"]["completed"]:
        return Measured(rate, cpu, 0)
    took, size = (made["summary"][name] for name in ("end_to_end_duration", "checkpointed_size"))
    return Measured(rate, cpu, int(made["counts"]["completed"]), *map(float, (took["p50"], took["p99"], size["p50"])))


def run_killed(stream: Stream, settings: dict[str, str], kills: int) -> list[float | None]:
    """At the stream's rate; milliseconds from each kill of the TaskManager to a new output of every counter.

    RuntimeError where it does not go on.
    """
    with cluster_place() as (processes, folder):
        job = begin(processes, folder, stream, settings, stream.rate)
        time.sleep(2 * AFTER_S)
        moments = []
        for _ in range(kills):
            highest = [max(one.number for one in outputs) for outputs in job.outputs()]
            moments.append(job.cluster.kill_manager(job.identity))
            job.await_outputs(stream.counters, highest, moments[-1], KILL_TIMEOUT_S)
            time.sleep(AFTER_S)
        outputs = job.outputs()
    return first_outputs_ms(outputs, moments)
