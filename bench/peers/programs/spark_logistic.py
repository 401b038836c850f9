"""Online logistic regression in Spark Structured Streaming: foreachBatch, gradients by mapInArrow and NumPy.

A file of Parquet is a micro-batch. Sums written as SQL expressions took three times as long: the weights are literals
of the query, which is generated and compiled anew for each micro-batch.
"""

import math
from collections.abc import Iterator

import harness
import numpy as np
import pyarrow as pa
import spark_common
from pyspark import __version__
from pyspark.sql import DataFrame

args = harness.arguments()
batches = args.items // args.micro_batch + spark_common.WARM_BATCHES
stream = spark_common.parquet_stream(args.data, args.scratch, args.micro_batch, batches)
spark = spark_common.session()
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", args.micro_batch // 2)
schema = spark.read.parquet(str(stream)).schema
weights, intercept = np.zeros(len(schema) - 1), 0.0


def train(batch: DataFrame, epoch: int) -> None:
    """One step of gradient descent; epochs count from zero."""
    global weights, intercept
    if epoch == spark_common.WARM_BATCHES:
        harness.begin()
    w, b = weights, intercept

    def gradient(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sums of a partition: one row of one array."""
        total = np.zeros(len(w) + 2)
        for part in parts:
            y, *x = (column.to_numpy() for column in part.columns)
            x = np.stack(x)
            residual = 1 / (1 + np.exp(-(w @ x + b))) - y
            total += [*(x @ residual), residual.sum(), len(residual)]
        yield pa.record_batch([pa.array([total.tolist()])], names=["sums"])

    *gradients, bias, rows = np.sum([row.sums for row in batch.mapInArrow(gradient, "sums array<double>").collect()], 0)
    rate = args.learning_rate / math.sqrt(epoch + 1)
    weights = weights - rate * np.array(gradients) / rows
    intercept -= rate * bias / rows


query = (
    spark.readStream.schema(schema)
    .option("maxFilesPerTrigger", 1)
    .parquet(str(stream))
    .writeStream.foreachBatch(train)
    .option("checkpointLocation", str(args.scratch / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
harness.end()
spark_common.stop(spark)
result = harness.score_weights(weights, intercept, args.test)
harness.report(args.items, result, f"Spark {__version__}")
