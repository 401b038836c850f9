"""Grep and word count by Spark Structured Streaming, in a process of its own; prints its measurements as JSON.

python -m bench.afstream.spark_text {grep,word_count} FOLDER --checkpoints FOLDER [--pattern TEXT] [--files N]

All files of the folder are read, so many at a trigger, by `availableNow`. The session is started and a first
query is run before time is taken, so that neither Java's start nor its compiler counts.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def session() -> SparkSession:
    """Two local cores, as many partitions, nothing on the network but loopback."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "4g",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("afstream")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def query(lines: DataFrame, kind: str, pattern: str) -> tuple[DataFrame, str]:
    """The lines with the pattern, or the count of each word; and the output mode."""
    if kind == "grep":
        return lines.filter(f.col("value").contains(pattern)), "append"
    words = lines.select(f.explode(f.split(f.lower("value"), "[^a-z]+")).alias("word"))
    return words.filter(f.col("word") != "").groupBy("word").count(), "update"


def run(spark: SparkSession, folder: str, options: argparse.Namespace, checkpoints: str, files: int) -> dict[str, Any]:
    """One query over all files of the folder; seconds, lines and triggers."""
    lines = spark.readStream.option("maxFilesPerTrigger", files).text(folder)
    frame, mode = query(lines, options.kind, options.pattern)
    writer = frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoints)
    began = time.perf_counter()
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    seconds = time.perf_counter() - began
    triggers = [progress for progress in running.recentProgress if progress.numInputRows]
    return {"seconds": seconds, "lines": sum(one.numInputRows for one in triggers), "triggers": len(triggers)}


def main() -> None:
    """Warm up on the first file of the folder's neighbour `warm`, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=("grep", "word_count"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--warm", type=Path, required=True, help="a folder with a little of the text")
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--pattern", default="")
    parser.add_argument("--files", type=int, default=8, help="files a trigger")
    options = parser.parse_args()
    spark = session()
    run(spark, str(options.warm), options, str(options.checkpoints / "warm"), 1)
    found = run(spark, str(options.folder), options, str(options.checkpoints / "measured"), options.files)
    size = sum(file.stat().st_size for file in options.folder.iterdir())
    print(json.dumps({**found, "mb_per_second": size / found["seconds"] / 1e6}))
    spark.stop()


if __name__ == "__main__":
    main()
