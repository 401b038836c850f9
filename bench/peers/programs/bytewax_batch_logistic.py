"""Online logistic regression in Bytewax: a record is a micro-batch, a NumPy array read and trained on by one worker."""

import math
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


class Blocks(StatelessSourcePartition):
    """Memory-mapped blocks of rows, the label first."""

    def __init__(self) -> None:
        self.blocks = harness.micro_batches(args.data, args.items, args.micro_batch)

    def next_batch(self) -> list[Any]:
        harness.begin()
        return [next(self.blocks)]


class Shards(DynamicSource):
    """All shards, by one worker."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Blocks:
        return Blocks()


def train(model: Model | None, block: np.ndarray) -> tuple[Model, np.ndarray]:
    """One step of gradient descent; the model is its weights, the intercept first, and the epochs so far."""
    x, y = block[:, 1:], block[:, 0]
    weights, epoch = model or (np.zeros(block.shape[1]), 0)
    residual = 1 / (1 + np.exp(-(x @ weights[1:] + weights[0]))) - y
    gradient = np.array([residual.sum(), *(x.T @ residual)]) / len(x)
    weights = weights - args.learning_rate / math.sqrt(epoch + 1) * gradient
    return (weights, epoch + 1), weights


models: list[Any] = []
flow = Dataflow("logistic")
batches = op.key_on("key", op.input("batches", flow, Shards()), lambda _: "model")
op.output("models", op.stateful_map("train", batches, train), TestingSink(models))
run_main(flow)
harness.end()
weights = models[-1][1]
result = harness.score_weights(weights[1:], weights[0], args.test)
harness.report(args.items, result, f"Bytewax {version('bytewax')}, a NumPy batch a record")
