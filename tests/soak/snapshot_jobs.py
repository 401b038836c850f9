"""The jobs of soak_snapshots.py, paced to last some seconds, and what they come to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "scenarios"))
import fault_points
from cli_harness import write_modules, write_shards

from riprap.configs.schemes import SCHEMES

EVERY = "interval_ms: 40"
CHECKPOINTING = {
    "barrier": f"{{scheme: barrier, {EVERY}}}",
    "barrier, unaligned": f"{{scheme: barrier, alignment: unaligned, {EVERY}}}",
    "barrier, timeout": f"{{scheme: barrier, alignment: timeout, alignment_timeout_ms: 5, {EVERY}}}",
    "stop_the_world": f"{{scheme: stop_the_world, {EVERY}}}",
}
COMPENSATING = {name: f"{{scheme: {name}, {EVERY}}}" for name in ("optimistic",) if name in SCHEMES}
"""For jobs with a loop alone, whose results are exact, or as near as the algorithm converges."""
STREAM_ITEMS = 40_000
LOOP = """\
job: loop
input: {path: edges.txt, bad_rows: keep}  # some vertices are infinitely far
micro_batch: 700
seed: 1
stages:
  read: {operator: "read_edges:ReadEdges", parallelism: 2, options: {undirected: true}}
  loop: {operator: "slow_loops:SlowPageRank", parallelism: 3}
edges:
  - {from: read, to: loop, partitioning: full}
  - {from: loop, to: loop, loop: true}
fault_tolerance: {}
"""
SLOW_LOOPS = """\
import time

from riprap.operators.graphs.components import ConnectedComponents
from riprap.operators.graphs.pagerank import PageRank
from riprap.operators.graphs.shortest_paths import ShortestPaths


class Slow:
    def superstep(self, number, messages, totals):
        time.sleep(0.008)
        return super().superstep(number, messages, totals)


class SlowConnectedComponents(Slow, ConnectedComponents):
    pass


class SlowPageRank(Slow, PageRank):
    pass


class SlowShortestPaths(Slow, ShortestPaths):
    pass
"""
TRAINING = """\
job: training
input: {path: shards, repeat: 16}
micro_batch: 500
stages:
  source: {operator: "paced:Paced", options: {per_second: 20000}}
  processor: {operator: "logistic_regression:Gradient", parallelism: 3}
  sink: {operator: "logistic_regression:Model", options: {learning_rate: 0.5}}
edges:
  - {from: source, to: processor, partitioning: stripe}
  - {from: processor, to: sink, partitioning: merge}
  - {from: sink, to: processor, feedback: true}
fault_tolerance: {}
"""
PATH, VERTICES, EDGES = 80, 600, 3_500
Results = dict[str, np.ndarray]


class Job(NamedTuple):
    """A kind of job: its topology, what writes the files that it needs, its workers, and what it found in a run."""

    text: str
    prepare: Callable[[Path], object]
    workers: tuple[str, ...]
    found: Callable[[Path], Results]
    loops: bool = False
    words: tuple[str, ...] = ()
    """Of the command that runs it."""
    closeness: float = 0.0
    """Of results to those of the undisturbed job, under a scheme that compensates."""

    def topology(self, scheme: str) -> str:
        """The topology under a scheme; a section with its options."""
        head, mark, _ = self.text.partition("fault_tolerance: ")
        return f"{head}{mark}{scheme}\n"


def write_graph(folder: Path) -> None:
    """A path, along which news takes a superstep a vertex, and random edges between the other vertices."""
    path = np.stack([np.arange(PATH - 1), np.arange(1, PATH)], axis=1)
    others = np.random.default_rng(3).integers(PATH, VERTICES, (EDGES - len(path), 2))
    (folder / "edges.txt").write_text("".join(f"{start} {end}\n" for start, end in [*path, *others]))
    (folder / "slow_loops.py").write_text(SLOW_LOOPS)


def write_training(folder: Path) -> None:
    """Shards, and the source that reads them slowly."""
    write_shards(folder / "shards")
    write_modules(folder)


def of_vertices(out: Path) -> Results:
    """The value of each vertex, by number."""
    parts = [np.load(path) for path in sorted(out.glob("model*.npz"))]
    vertices, values = (np.concatenate([part[name] for part in parts]) for name in ("vertices", "values"))
    order = np.argsort(vertices)
    return {"vertices": vertices[order], "values": values[order]}


def of_model(out: Path) -> Results:
    """The model."""
    return dict(np.load(out / "model.npz"))


def of_rows(out: Path) -> Results:
    """Nothing; AssertionError unless the transactions put out each row of the stream once."""
    rows = sorted(row for path in (out.parent / "rows").glob("part-*.csv") for row in fault_points.rows_of(path))
    epochs = (out / "epochs.csv").read_text().splitlines()
    truth = fault_points.truth(int(epochs[-1].partition(",")[0]))
    beside = sorted(set(rows).symmetric_difference(truth))
    assert rows == truth, f"{len(rows)} rows instead of {len(truth)}; missing or superfluous: {beside[:3]}"
    return {}


def _loop(operator: str, closeness: float = 0.0) -> Job:
    workers = ("read.0", "read.1", "loop.0", "loop.1", "loop.2")
    return Job(LOOP.replace("PageRank", operator), write_graph, workers, of_vertices, True, (), closeness)


JOBS = {
    "transactions": Job(
        fault_points.TOPOLOGY, fault_points.write_job, ("read.0", "read.1", "tally.0", "tally.1", "write.0"), of_rows,
        words=("--until", f"items={STREAM_ITEMS}"),
    ),
    "training": Job(TRAINING, write_training, ("source.0", "processor.0", "processor.1", "processor.2", "sink.0"),
                    of_model),
    "components": _loop("ConnectedComponents"),
    "paths": _loop("ShortestPaths"),
    "ranks": _loop("PageRank", 1e-6),
}  # fmt: skip
CASES = [
    (job, scheme, section)
    for job in JOBS
    for scheme, section in (CHECKPOINTING | (COMPENSATING if JOBS[job].loops else {})).items()
]
