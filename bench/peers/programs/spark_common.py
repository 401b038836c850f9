"""The base of the programs for Spark: the session, the Parquet files that stand in for the shards, and its end."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import harness
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import SparkSession

WARM_BATCHES = 10
"""Micro-batches before the clock starts: the JVM compiles the code that they run."""


def session(master: str = "local[2]", more: Mapping[str, str] | None = None) -> SparkSession:
    """Two local cores, as many partitions of a shuffle, nothing on the network but loopback."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "5m",
        "spark.sql.files.openCostInBytes": "0",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master).appName("peers")
    for name, value in {**settings, **(more or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def parquet_stream(data: Path, scratch: Path, micro_batch: int, count: int) -> Path:
    """A folder of `count` Parquet files of `micro_batch` rows each: one pass over the shards, then links to its files.

    The files of the pass are made once, beside the environment. Columns are y and x0, x1, ...; a file has two
    row groups, so that two tasks may read it.
    """
    cache = Path(".data/peers/spark/parquet") / f"{data.parent.parent.name}-{micro_batch}"
    if not cache.exists():
        made = Path(f"{cache}.partial")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        rows = sum(map(len, harness.shards(data)))
        for number, block in enumerate(harness.micro_batches(data, _ceil(rows, micro_batch), micro_batch)):
            pq.write_table(_table(block), made / f"{number:05d}.parquet", row_group_size=micro_batch // 2)
        made.rename(cache)
    files = sorted(cache.glob("*.parquet"))
    stream = scratch / "stream"
    stream.mkdir()
    for number in range(count):
        (stream / f"{number:05d}.parquet").hardlink_to(files[number % len(files)])
    return stream


def stop(spark: SparkSession) -> None:
    """End the session and its JVM, and wait, so that its memory counts as that of an ended child."""
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None, "a session has one"
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


def _ceil(rows: int, micro_batch: int) -> int:
    return math.ceil(rows / micro_batch) * micro_batch


def _table(block: np.ndarray) -> pa.Table:
    names = ["y", *(f"x{number}" for number in range(block.shape[1] - 1))]
    return pa.table(dict(zip(names, np.ascontiguousarray(block.T), strict=True)))
