"""Heavy hitters in Spark Structured Streaming: exact sums by flow in foreachBatch, a pass over the packets a batch."""

from pathlib import Path

import harness
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import spark_common
from pyspark import __version__
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

WARM = 2

args = harness.arguments()
cache = Path(".data/peers/spark/parquet") / args.data.name
shards = harness.shards(args.data)
cache.mkdir(parents=True, exist_ok=True)
stream = args.scratch / "stream"
stream.mkdir()
for number, shard in enumerate(shards):
    file = cache / f"{number:05d}.parquet"
    if not file.exists():
        made = file.with_suffix(".partial")
        pq.write_table(pa.table({"flow": shard["flow"].view(np.int64), "payload": shard["payload"]}), made)
        made.rename(file)
for copy in range(args.passes + WARM):
    for file in sorted(cache.glob("*.parquet")):
        (stream / f"{copy:03d}-{file.name}").hardlink_to(file)
spark = spark_common.session()
schema = spark.read.parquet(str(min(stream.iterdir()))).schema
heavy: list[int] = []


def window(batch: DataFrame, number: int) -> None:
    """The flows above the threshold in one pass."""
    global heavy
    if number == WARM:
        harness.begin()
    sums = batch.groupBy("flow").agg(f.sum("payload").alias("bytes")).filter(f.col("bytes") > args.threshold)
    heavy = [row["flow"] % 2**64 for row in sums.collect()]


query = spark.readStream.schema(schema).option("maxFilesPerTrigger", len(shards)).parquet(str(stream)).writeStream
query = query.foreachBatch(window).option("checkpointLocation", str(args.scratch / "checkpoint"))
query.trigger(availableNow=True).start().awaitTermination()
harness.end()
spark_common.stop(spark)
harness.report(args.passes * sum(map(len, shards)), {"flows": heavy}, f"Spark {__version__}")
