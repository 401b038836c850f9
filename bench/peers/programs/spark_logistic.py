"""Online logistic regression in Spark Structured Streaming: foreachBatch, gradients summed by SQL expressions.

A file of Parquet is a micro-batch. The gradient is one aggregation of generated Java code.
"""

import math

import harness
import numpy as np
import spark_common
from pyspark import __version__
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

args = harness.arguments()
batches = args.items // args.micro_batch + spark_common.WARM_BATCHES
stream = spark_common.parquet_stream(args.data, args.scratch, args.micro_batch, batches)
spark = spark_common.session()
schema = spark.read.parquet(str(stream)).schema
names = schema.names[1:]
weights, intercept = np.zeros(len(names)), 0.0


def train(batch: DataFrame, epoch: int) -> None:
    """One step of gradient descent; epochs count from zero."""
    global weights, intercept
    if epoch == spark_common.WARM_BATCHES:
        harness.begin()
    margin = f.lit(intercept)
    for name, weight in zip(names, weights.tolist(), strict=True):
        margin = margin + f.col(name) * weight
    residual = (1 / (1 + f.exp(-margin)) - f.col("y")).alias("r")
    sums = [f.sum(f.col("r") * f.col(name)) for name in names]
    *gradient, bias, rows = batch.select(residual, *names).agg(*sums, f.sum("r"), f.count("*")).first()
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
