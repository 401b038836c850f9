"""Online logistic regression in Pathway: a record is a micro-batch, a NumPy array that a subscriber trains on."""

import math
from typing import Any

import harness
import numpy as np
import pathway as pw

args = harness.arguments()
columns = harness.shards(args.data)[0].shape[1]


class Blocks(pw.io.python.ConnectorSubject):
    """Blocks of rows, the label first."""

    deletions_enabled = False

    def run(self) -> None:
        harness.begin()
        for block in harness.micro_batches(args.data, args.items, args.micro_batch):
            self.next(block=block)


class Block(pw.Schema):
    """A micro-batch."""

    block: np.ndarray


class Model:
    """Weights, the intercept first."""

    def __init__(self) -> None:
        self.weights, self.epoch = np.zeros(columns), 0

    def add(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """One step of gradient descent."""
        x, y = row["block"][:, 1:], row["block"][:, 0]
        residual = 1 / (1 + np.exp(-(x @ self.weights[1:] + self.weights[0]))) - y
        gradient = np.array([residual.sum(), *(x.T @ residual)]) / len(x)
        self.epoch += 1
        self.weights -= args.learning_rate / math.sqrt(self.epoch) * gradient


model = Model()
blocks = pw.io.python.read(Blocks(), schema=Block, max_backlog_size=10)  # else all of them wait in memory
pw.io.subscribe(blocks, model.add)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
harness.end()
result = harness.score_weights(model.weights[1:], model.weights[0], args.test)
harness.report(args.items, result, f"Pathway {pw.__version__}, a NumPy batch a record")
