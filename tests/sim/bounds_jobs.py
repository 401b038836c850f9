"""Operators and topologies that show what is lost: every item has a number of its own, and may become several."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from dataflow_jobs import KEYS

from riprap.operators.base import Context
from riprap.operators.dataflow import DataflowOperator, Emitter, Items
from riprap.operators.states import Decaying, HashMap, Vector, Windowed

FEATURES = 3
FACTOR = 0.5


class Multiply(DataflowOperator):
    """Stateless: each item (key, number) becomes `beta` items with numbers that no other item has."""

    def __init__(self, beta: int = 1) -> None:
        self.beta = beta

    def open(self, context: Context) -> None:
        self.tasks = context.fan_out

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        many = np.repeat(rows, self.beta, axis=0)
        many[:, 1] = many[:, 1] * self.beta + np.tile(np.arange(self.beta), len(rows))
        for task in range(self.tasks):
            chosen = many[many[:, 0] % self.tasks == task]
            if len(chosen):
                out.send((chosen,), len(chosen), to=task)
        return items.count


class Deliver(DataflowOperator):
    """Destination without a state: hands each item's number to the world, which is `delivered`."""

    delivered: set[int]

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        self.delivered.update(items.arrays[0][first:, 1].astype(int).tolist())
        return items.count


def _stage(operator: str, tasks: int, **options: Any) -> dict[str, Any]:
    return {"operator": operator, "parallelism": tasks, "options": options}


def _joined(*stages: str) -> list[dict[str, Any]]:
    return [{"from": a, "to": b, "partitioning": "full", "feedback": False} for a, b in pairwise(stages)]


def through(copies: int, beta: int, destinations: int) -> dict[str, Any]:
    """Two sources, so many copies of an operator that makes `beta` items of each item, and destinations."""
    stages = {
        "a": _stage("bounds_jobs:Multiply", 2),
        "b": _stage("bounds_jobs:Multiply", copies, beta=beta),
        "c": _stage("bounds_jobs:Deliver", destinations),
    }
    return {"stages": stages, "edges": _joined("a", "b", "c")}


def into(copies: int) -> dict[str, Any]:
    """Two sources, and so many copies of a destination that sums up the values of each key."""
    stages = {"a": _stage("bounds_jobs:Multiply", 2), "b": _stage("dataflow_jobs:Total", copies)}
    return {"stages": stages, "edges": _joined("a", "b")}


class Learn(DataflowOperator):
    """Online logistic regression by steps of 1 / sqrt(t), t being an item's number; `seen` gets the model before each.

    State: the model; divergence: Euclidean.
    """

    seen: dict[int, np.ndarray]

    def __init__(self) -> None:
        self.state: Vector = Vector(FEATURES, "euclidean")

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        theta, self.state.theta = self.state.theta, math.inf
        for number in items.arrays[0][first:, 1].astype(int).tolist():
            x, y = example(number)
            model = self.seen[number] = self.state.values.copy()
            step = y * x / (1 + math.exp(y * (model @ x))) / math.sqrt(number + 1)
            self.state.add(np.arange(FEATURES), step)
            first += 1
            if self.state.state_divergence() > theta:
                break
        self.state.theta = theta
        return first


def example(number: int) -> tuple[np.ndarray, float]:
    """The features, of length 1, and the label (1 or -1) of an item."""
    rng = np.random.default_rng(number)
    x = rng.standard_normal(FEATURES)
    return x / np.linalg.norm(x), 1.0 if rng.random() < 1 / (1 + math.exp(-8 * x[0])) else -1.0


def learning() -> dict[str, Any]:
    """A source and the task that learns."""
    stages = {"a": _stage("bounds_jobs:Multiply", 1), "b": _stage("bounds_jobs:Learn", 1)}
    return {"stages": stages, "edges": _joined("a", "b")}


class Recent(DataflowOperator):
    """Destination: the sum of the values of each key in the last windows."""

    def __init__(self, window: str, window_epochs: int) -> None:
        def make() -> Vector:
            return Vector(KEYS)

        fades = window == "decaying"
        self.state = Decaying(make, FACTOR) if fades else Windowed(make, window, window_epochs)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        (rows,) = items.arrays
        return first + self.state.add(items.epoch, rows[first:, 0].astype(np.int64), rows[first:, 1])

    def process_punctuation(self, epoch: int, out: Emitter) -> None:
        self.state.close(epoch)


def recent(copies: int, window: str, window_epochs: int) -> dict[str, Any]:
    """Two sources, and so many destinations that sum up the values of each key in the last windows."""
    options = {"window": window, "window_epochs": window_epochs}
    stages = {"a": _stage("bounds_jobs:Multiply", 2), "b": _stage("bounds_jobs:Recent", copies, **options)}
    return {"stages": stages, "edges": _joined("a", "b")}


class Tally(DataflowOperator):
    """Destination: how often each key came. Each promises not to lack more than `relative` of it, and to be there."""

    def __init__(self, relative: float) -> None:
        self.state: HashMap = HashMap("int64", "maximum", "int64", relative)

    def process_data(self, items: Items, first: int, out: Emitter) -> int:
        keys = items.arrays[0][first:, 0].astype(np.int64)
        return first + self.state.add(keys, np.ones(len(keys), np.int64))


def tallies(copies: int, relative: float) -> dict[str, Any]:
    """Two sources, and so many destinations that count keys, most of which come once or twice."""
    stages = {"a": _stage("bounds_jobs:Multiply", 2), "b": _stage("bounds_jobs:Tally", copies, relative=relative)}
    return {"stages": stages, "edges": _joined("a", "b")}
