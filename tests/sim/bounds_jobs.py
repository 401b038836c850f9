"""Operators and topologies that show what is lost: every item has a number of its own, and may become several."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from operators.dataflow.base import DataflowOperator, Emitter, Items, Place


class Multiply(DataflowOperator):
    """Stateless: each item (key, number) becomes `beta` items with numbers that no other item has."""

    def __init__(self, beta: int = 1) -> None:
        self.beta = beta

    def start(self, place: Place) -> None:
        self.tasks = place.fan_out

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
