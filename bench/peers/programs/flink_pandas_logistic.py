"""Online logistic regression in PyFlink: a pandas UDF of micro-batches, that keeps the model and trains it."""

import math
import os

import flink_common
import harness
import numpy as np
import pandas
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import ScalarFunction, udf

WARM = 5

args = harness.arguments()
told = str(args.scratch / "told")
os.mkfifo(told)


class Train(ScalarFunction):
    """One step of gradient descent for each batch of Arrow; gives the residuals. Says when to begin, and the model."""

    def __init__(self, last: int, learning_rate: float, told: str) -> None:
        self.last, self.learning_rate, self.told = last, learning_rate, told
        self.weights, self.intercept, self.epoch = np.zeros(0), 0.0, 0

    def eval(self, label: pandas.Series, *attributes: pandas.Series) -> pandas.Series:
        """The columns of a batch."""
        x = np.stack([column.to_numpy() for column in attributes])
        if not self.epoch:
            self.weights = np.zeros(len(x))
        residual = 1 / (1 + np.exp(-(self.weights @ x + self.intercept))) - label.to_numpy()
        self.epoch += 1
        rate = self.learning_rate / math.sqrt(self.epoch)
        self.weights -= rate * (x @ residual) / len(label)
        self.intercept -= rate * residual.mean()
        if self.epoch in (WARM, self.last):
            word = "begin" if self.epoch == WARM else "end"
            with open(self.told, "a") as words:
                print(word, self.intercept, *self.weights.tolist(), file=words)
        return pandas.Series(residual)


count = args.items // args.micro_batch + WARM
block = np.concatenate(list(harness.micro_batches(args.data, count * args.micro_batch, args.micro_batch)))
names = ["y", *(f"x{number}" for number in range(block.shape[1] - 1))]
table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
for name, value in {
    "parallelism.default": "1",
    "python.fn-execution.arrow.batch.size": str(args.micro_batch),
    "python.fn-execution.bundle.size": str(args.micro_batch),
    "python.fn-execution.bundle.time": "60000",
    "taskmanager.memory.task.off-heap.size": "512m",
}.items():
    table.get_config().set(name, value)
train = udf(Train(count, args.learning_rate, told), result_type=DataTypes.DOUBLE(), func_type="pandas")
table.create_temporary_function("train", train)
table.create_temporary_view("items", table.from_pandas(pandas.DataFrame(block, columns=names)))
table.execute_sql("CREATE TABLE residuals (residual DOUBLE) WITH ('connector' = 'blackhole')")
table.execute_sql(f"INSERT INTO residuals SELECT train({', '.join(names)}) FROM items")
with open(told) as lines:
    lines.readline()
    harness.begin()
with open(told) as lines:
    _, intercept, *weights = lines.readline().split()
    harness.end()
result = harness.score_weights(np.array(weights, float), float(intercept), args.test)
harness.report(args.items, result, f"{flink_common.VERSION} (PyFlink)")
