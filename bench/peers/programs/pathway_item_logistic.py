"""Online logistic regression in Pathway: a record is an item; a subscriber takes a step per micro-batch."""

import math
from typing import Any

import harness
import numpy as np
import pathway as pw

args = harness.arguments()
columns = harness.shards(args.data)[0].shape[1]
names = [f"x{column}" for column in range(columns)]


class Rows(pw.io.python.ConnectorSubject):
    """One item after the other, the label first."""

    deletions_enabled = False

    def run(self) -> None:
        harness.begin()
        for block in harness.micro_batches(args.data, args.items, args.micro_batch):
            for row in block.tolist():
                self.next(**dict(zip(names, row)))


class Model:
    """Weights, the intercept first, and the items of the micro-batch that is not complete."""

    def __init__(self) -> None:
        self.weights, self.epoch = np.zeros(columns), 0
        self.rows: list[tuple[float, ...]] = []

    def add(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """An item; a step of gradient descent when the micro-batch is complete."""
        self.rows.append(tuple(row.values()))
        if len(self.rows) < args.micro_batch:
            return
        data = np.array(self.rows)
        x, y = data[:, 1:], data[:, 0]
        residual = 1 / (1 + np.exp(-(x @ self.weights[1:] + self.weights[0]))) - y
        gradient = np.array([residual.sum(), *(x.T @ residual)]) / len(x)
        self.epoch += 1
        self.weights -= args.learning_rate / math.sqrt(self.epoch) * gradient
        self.rows.clear()


model = Model()
schema = pw.schema_from_types(**dict.fromkeys(names, float))
pw.io.subscribe(pw.io.python.read(Rows(), schema=schema), model.add)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
harness.end()
result = harness.score_weights(model.weights[1:], model.weights[0], args.test)
harness.report(args.items, result, f"Pathway {pw.__version__}, an item a record")
