"""Demands of Source, Processor and Sink on a topology: one stage of each, and a sink task for each source task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riprap.configs.problems import Problem
from riprap.configs.shape import Shape

OTHERS = "other graphs of stages are of DataflowOperators, under a scheme other than erasure and replication"


def role_problems(shape: Shape) -> Iterator[Problem]:
    """Parts of `shape` that do not fit; its edges are well formed already."""
    positions = (
        ("source", "no data edge enters it", shape.sources),
        ("processor", "data edges enter and leave it", shape.processors),
        ("sink", "no data edge leaves it", shape.sinks),
    )
    for position, meaning, found in positions:
        if len(found) != 1:
            names = ", ".join(found) or "none"
            wrong = f"{len(found)} stages are {position}s ({names})"
            yield Problem(("edges",), wrong, f"exactly one ({meaning})", OTHERS)
    for source, sink in zip(shape.sources, shape.sinks):
        if shape.parallelism[source] != shape.parallelism[sink]:
            yield Problem(
                ("stages", sink, "parallelism"),
                f"is {shape.parallelism[sink]}",
                f"{shape.parallelism[source]}, as {source} has: each source task has a sink task of its own",
            )


def thread_problems(threads: Mapping[str, int]) -> Iterator[Problem]:
    """Stages (name -> compute threads) with more than the one thread that these operators have."""
    for stage, count in threads.items():
        if count > 1:
            yield Problem(
                ("stages", stage, "threads"),
                f"is {count}",
                "1: only stages of dataflow operators have several compute threads",
                "raise its parallelism instead",
            )
