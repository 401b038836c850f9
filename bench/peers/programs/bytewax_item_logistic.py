"""Online logistic regression in Bytewax: a record is a tuple; a step per collected micro-batch."""

import math
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import bytewax.operators as op
import harness
import numpy as np
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import TestingSink, run_main

args = harness.arguments()
Model = tuple[np.ndarray, int]


class Rows(StatelessSourcePartition):
    """Tuples of floats, the label first."""

    def __init__(self) -> None:
        self.blocks = harness.micro_batches(args.data, args.items, 1000)

    def next_batch(self) -> list[Any]:
        harness.begin()
        return list(map(tuple, next(self.blocks).tolist()))


class Shards(DynamicSource):
    """All shards, by one worker."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Rows:
        return Rows()


def train(model: Model | None, batch: list[Any]) -> tuple[Model, np.ndarray]:
    """One step of gradient descent; the model is its weights, the intercept first, and the epochs so far."""
    data = np.array(batch)
    x, y = data[:, 1:], data[:, 0]
    weights, epoch = model or (np.zeros(data.shape[1]), 0)
    residual = 1 / (1 + np.exp(-(x @ weights[1:] + weights[0]))) - y
    gradient = np.array([residual.sum(), *(x.T @ residual)]) / len(x)
    weights = weights - args.learning_rate / math.sqrt(epoch + 1) * gradient
    return (weights, epoch + 1), weights


models: list[Any] = []
flow = Dataflow("logistic")
rows = op.key_on("key", op.input("rows", flow, Shards()), lambda _: "model")
batches = op.collect("batch", rows, timeout=timedelta(minutes=1), max_size=args.micro_batch)
op.output("models", op.stateful_map("train", batches, train), TestingSink(models))
run_main(flow)
harness.end()
weights = models[-1][1]
result = harness.score_weights(weights[1:], weights[0], args.test)
harness.report(args.items, result, f"Bytewax {version('bytewax')}, an item a record")
