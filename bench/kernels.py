"""The gradient and assignment kernels beside the NumPy expressions that they replace: `python -m bench.kernels`.

One thread, blocks of 25,000 items. "cold" walks through the memory-mapped shards, "warm" stays on one block. Both also
make the operators' statistics, which the NumPy loop does not. "read" is BLAS's dot product of the same memory with
itself, single-threaded: what reading alone takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# numpy_loop sets the number of BLAS's threads, which is read when NumPy is imported
from bench.numpy_loop import LEARNERS, split  # isort: skip

import numpy as np

from bench.runs import median, ready, save, table
from riprap.operators.base import Context
from riprap.operators.inputs.shard_source import ShardSource
from riprap.operators.learning import blockmath

ROWS, BLOCK, CLUSTERS, ROUNDS = 2_000_000, 25_000, 10, 9
DATA = {"kdd12": 11, "higgs": 28}
LOSSES = {
    "linear_regression": blockmath.SQUARED,
    "logistic_regression": blockmath.LOGISTIC,
    "svm": blockmath.HINGE,
}
ALGORITHMS = (*LOSSES, "kmeans")
LATE = 10**9
"""The epoch that the rival is told: its steps are so small that the model stays as it is, as ours does."""

Work = Callable[[np.ndarray], object]


@dataclass(frozen=True)
class Rates:
    """Million items a second, medians of the rounds; `ratio` is the median over rounds of ours to NumPy's."""

    ours: float
    numpy: float
    ratio: float
    read: float


def ours(algorithm: str, columns: int, label: int) -> Work:
    """A processor's work on a block."""
    rng = np.random.default_rng(0)
    if algorithm == "kmeans":
        features = np.ones(columns)
        features[label] = 0.0
        centres = rng.standard_normal((CLUSTERS, columns)) * features
        return lambda block: blockmath.kmeans_result(block, centres, features)
    state = 0.1 * rng.standard_normal(columns + 1)
    state[label] = 0.0
    return lambda block: blockmath.linear_result(LOSSES[algorithm], block, state, label)


def rival(algorithm: str, features: int, label: int) -> Work:
    """The same by NumPy."""
    learner = LEARNERS[algorithm](features)
    return lambda block: learner.step(*split(block, label), LATE)


def read(block: np.ndarray) -> object:
    """Every byte once."""
    flat = block.reshape(-1)
    return flat @ flat


def seconds(work: Work, blocks: Sequence[np.ndarray]) -> float:
    """For all of the blocks."""
    began = time.perf_counter()
    for block in blocks:
        work(block)
    return time.perf_counter() - began


def measure(works: Sequence[Work], blocks: Sequence[np.ndarray]) -> Rates:
    """Ours, NumPy's and reading, taking turns after a turn that does not count."""
    turns = [[seconds(work, blocks) for work in works] for _ in range(ROUNDS + 1)][1:]
    items = sum(len(block) for block in blocks)
    medians = [items / median(column) / 1e6 for column in zip(*turns, strict=True)]
    return Rates(medians[0], medians[1], median(turn[1] / turn[0] for turn in turns), medians[2])


def blocks_of(data: str) -> tuple[list[np.ndarray], int]:
    """All whole blocks of the shards, as the source hands them out, and the label's column."""
    source = ShardSource()
    source.open(Context(input={"path": ready(data, ROWS), "limit": None, "repeat": 1}))
    label = Context(*source.schema()).label_index
    assert label is not None and source.items is not None
    starts = range(0, source.items - BLOCK + 1, BLOCK)
    return [source.read(start, start + BLOCK) for start in starts], label


def main() -> None:
    """Print and save."""
    rows, figures = [], {}
    for data, features in DATA.items():
        blocks, label = blocks_of(data)
        columns = features + 1
        for algorithm in ALGORITHMS:
            works = [ours(algorithm, columns, label), rival(algorithm, features, label), read]
            for name, walk in {"cold": blocks, "warm": blocks[:1] * len(blocks)}.items():
                found = measure(works, walk)
                in_gb = 8e-3 * columns
                rows.append(
                    (
                        algorithm,
                        features,
                        name,
                        found.ours,
                        found.numpy,
                        found.ratio,
                        in_gb * found.ours,
                        in_gb * found.read,
                    )
                )
                figures[f"{algorithm}, {features}, {name}"] = vars(found)
    caption = f"one thread, blocks of {BLOCK:,} items, {CLUSTERS} centres; medians of {ROUNDS} rounds, taking turns"
    heading = ["algorithm", "attributes", "memory", "M items/s", "NumPy", "ratio", "GB/s", "GB/s reading alone"]
    save("kernels", "Kernels of the algorithms", {caption: table(heading, rows)}, figures)


if __name__ == "__main__":
    main()
