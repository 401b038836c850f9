"""spark_logistic.py's training on executors in processes of their own; a line "EPOCH MILLISECONDS" for each batch.

python spark_recovery.py FOLDER MICRO_BATCH BATCHES OUTPUT SCRATCH
"""

import math
import sys
import time
from pathlib import Path

import numpy as np
import spark_common
import spark_gradient
from pyspark.sql import DataFrame

data, micro_batch, batches, output, scratch = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
stream = spark_common.parquet_stream(data, Path(scratch), micro_batch, batches)
events = Path(scratch) / "events"
events.mkdir()
logged = {"enabled": "true", "dir": events.as_uri(), "rolling.enabled": "false", "compress": "false"}
settings = {f"spark.eventLog.{name}": value for name, value in logged.items()}
spark = spark_common.session("local-cluster[2,1,1024]", {**settings, "spark.executor.memory": "1g"})
schema = spark.read.parquet(str(min(stream.iterdir()))).schema
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", micro_batch // 2)
weights, intercept = np.zeros(len(schema) - 1), 0.0


def train(batch: DataFrame, epoch: int) -> None:
    """One step of gradient descent; epochs count from zero."""
    global weights, intercept
    *gradient, bias, rows = spark_gradient.sums(batch, weights, intercept)
    rate = 2.0 / math.sqrt(epoch + 1)
    weights -= rate * np.array(gradient) / rows
    intercept -= rate * bias / rows
    with open(output, "a") as lines:
        lines.write(f"{epoch + 1} {time.time() * 1000:.3f}\n")


(
    spark.readStream.schema(schema)
    .option("maxFilesPerTrigger", 1)
    .parquet(str(stream))
    .writeStream.foreachBatch(train)
    .option("checkpointLocation", str(Path(scratch) / "checkpoint"))
    .start()
    .awaitTermination()
)
