"""Online logistic regression in Spark Structured Streaming: foreachBatch, and spark_gradient.py.

A file of Parquet is a micro-batch. Sums written as SQL expressions took three times as long: the weights are literals
of the query, which is generated and compiled anew for each micro-batch.
"""

import math

import harness
import numpy as np
import spark_common
import spark_gradient
from pyspark import __version__
from pyspark.sql import DataFrame

args = harness.arguments()
batches = args.items // args.micro_batch + spark_common.WARM_BATCHES
stream = spark_common.parquet_stream(args.data, args.scratch, args.micro_batch, batches)
spark = spark_common.session()
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", args.micro_batch // 2)
schema = spark.read.parquet(str(min(stream.iterdir()))).schema
weights, intercept = np.zeros(len(schema) - 1), 0.0


def train(batch: DataFrame, epoch: int) -> None:
    """One step of gradient descent; epochs count from zero."""
    global weights, intercept
    if epoch == spark_common.WARM_BATCHES:
        harness.begin()
    *gradient, bias, rows = spark_gradient.sums(batch, weights, intercept)
    rate = args.learning_rate / math.sqrt(epoch + 1)
    weights -= rate * np.array(gradient) / rows
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
