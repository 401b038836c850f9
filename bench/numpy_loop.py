"""The rival: the mini-batch loop that a user writes in NumPy, on one thread, over the same memory-mapped shards.

    python -m bench.numpy_loop SHARDS [--algorithm NAME] [--micro-batch N]

The mathematics is that of the operators, so the models agree to rounding (BLAS sums in an order of its own). It
computes no prequential metrics, which the operators do.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from riprap.operators.base import Context
from riprap.operators.inputs.shard_source import ShardSource


class Linear:
    """Weights, and one step of gradient descent per micro-batch."""

    def __init__(self, features: int, residual: Callable[[np.ndarray, np.ndarray], np.ndarray], rate: float) -> None:
        self.weights, self.intercept = np.zeros(features), 0.0
        self.residual, self.rate = residual, rate

    def step(self, x: np.ndarray, y: np.ndarray, epoch: int) -> None:
        """One epoch."""
        r = self.residual(x @ self.weights + self.intercept, y)
        step = self.rate / math.sqrt(epoch)
        self.weights -= step * (x.T @ r / len(x))
        self.intercept -= step * (r.sum() / len(x))

    def model(self) -> dict[str, np.ndarray]:
        """As the operators name it."""
        return {"coefficients": self.weights, "intercept": np.array([self.intercept])}


class KMeans:
    """Centres and their weights, moved once per micro-batch."""

    def __init__(self, features: int, k: int, seed: int) -> None:
        self.centres = np.random.default_rng(seed).standard_normal((k, features))
        self.weights = np.zeros(k)

    def step(self, x: np.ndarray, y: np.ndarray, epoch: int) -> None:
        """One epoch."""
        k = len(self.weights)
        nearest = (x @ self.centres.T - 0.5 * np.square(self.centres).sum(axis=1)).argmax(axis=1)
        counts = np.bincount(nearest, minlength=k)
        sums = np.eye(k)[nearest].T @ x
        self.weights += counts
        hit = counts > 0
        share = (counts[hit] / self.weights[hit])[:, np.newaxis]
        self.centres[hit] = self.centres[hit] * (1 - share) + sums[hit] / counts[hit, np.newaxis] * share
        full, dying = self.weights.argmax(), self.weights.argmin()
        if self.weights[dying] < 1e-8 * self.weights[full]:
            self.weights[[full, dying]] = self.weights[[full, dying]].sum() / 2
            apart = 1e-4 * np.maximum(np.abs(self.centres[full]), 1)
            self.centres[dying] = self.centres[full] - apart
            self.centres[full] += apart

    def model(self) -> dict[str, np.ndarray]:
        """As the operators name it."""
        return {"centres": self.centres, "weights": self.weights}


def logistic(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Residuals of the logistic loss."""
    return 1 / (1 + np.exp(-z)) - y


def hinge(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Subgradients of the hinge loss by the margin."""
    sign = 2 * y - 1
    return np.where(sign * z < 1, -sign, 0)


def squared(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Residuals of half the squared loss."""
    return z - y


#: Algorithm -> learner of so many features, with the options that the operators take where no sample is looked at.
LEARNERS: dict[str, Callable[[int], Linear | KMeans]] = {
    "logistic_regression": lambda features: Linear(features, logistic, 1.0),
    "svm": lambda features: Linear(features, hinge, 1.0),
    "linear_regression": lambda features: Linear(features, squared, 0.1),
    "kmeans": lambda features: KMeans(features, k=10, seed=0),
}


def split(block: np.ndarray, label: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a block; views when the label is the first or the last column."""
    if label is None:
        return block, block[:, 0]
    if label == 0:
        return block[:, 1:], block[:, 0]
    if label == block.shape[1] - 1:
        return block[:, :-1], block[:, -1]
    return np.delete(block, label, axis=1), block[:, label]


def train(learner: Linear | KMeans, blocks: Iterable[np.ndarray], label: int | None) -> dict[str, Any]:
    """Train on micro-batches in order; items_per_second and the model."""
    items = 0
    start = time.perf_counter()
    for epoch, block in enumerate(blocks, start=1):
        learner.step(*split(block, label), epoch)
        items += len(block)
    return {"items_per_second": items / (time.perf_counter() - start), "model": learner.model()}


def run(
    shards_path: str, algorithm: str, micro_batch: int = 100_000, limit: int | None = None, repeat: int = 1
) -> dict[str, Any]:
    """Train on the stream of a shard directory, as a job with that input would.

    Returns `items_per_second`, the reading of the mapped shards included, and `model`.
    """
    source, context = _open(shards_path, limit, repeat)
    return train(LEARNERS[algorithm](context.features), _micro_batches(source, micro_batch), context.label_index)


def run_warm(shards_path: str, algorithm: str, micro_batch: int, passes: int) -> dict[str, Any]:
    """Train on the first micro-batch over and over: what the loop does when its data stay in the cache."""
    source, context = _open(shards_path, micro_batch, 1)
    block = source.read(0, _length(source))
    return train(LEARNERS[algorithm](context.features), [block] * passes, context.label_index)


def _open(path: str, limit: int | None, repeat: int) -> tuple[ShardSource, Context]:
    source = ShardSource()
    source.open(Context(input={"path": path, "limit": limit, "repeat": repeat}))
    columns, label = source.schema()
    return source, Context(columns, label)


def _micro_batches(source: ShardSource, size: int) -> Iterator[np.ndarray]:
    items = _length(source)
    for start in range(0, items, size):
        yield source.read(start, min(start + size, items))


def _length(source: ShardSource) -> int:
    assert source.items is not None, "the input has an end"
    return source.items


def main() -> None:
    """Print millions of items per second, cold and warm: medians of some runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards")
    parser.add_argument("--algorithm", choices=LEARNERS, default="logistic_regression")
    parser.add_argument("--micro-batch", type=int, default=100_000)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    what = options.shards, options.algorithm, options.micro_batch
    cold = [run(*what, options.limit, options.repeat)["items_per_second"] for _ in range(options.runs)]
    warm = [run_warm(*what, passes=20)["items_per_second"] for _ in range(options.runs)]
    print(f"{options.algorithm}: cold {statistics.median(cold) / 1e6:.1f} M items/s", end=", ")
    print(f"warm {statistics.median(warm) / 1e6:.1f} M items/s (micro-batches of {options.micro_batch})")


if __name__ == "__main__":
    main()
