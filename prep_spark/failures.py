"""Turns Spark's exceptions into one message for the user: the only place that reads Java's texts."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from riprap.prep_spark.errors import PrepError

DISK_FULL = ("the disk is full", "free space where the shards go; they need twice their size")
AVRO = "give --package org.apache.spark:spark-avro_2.13:VERSION, in the version of your Spark (pip show pyspark)"
DELTA = (
    "give --package io.delta:delta-spark_2.13:VERSION, in one made for your Spark, with "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
KNOWN = (
    ("data source: avro", "Spark has no reader of Avro here", AVRO),
    ("data source: delta", "Spark has no reader of Delta here", DELTA),
    ("is not a Parquet file", "{source} holds a file that is not Parquet", "name Parquet files, or another --format"),
    ("TABLE_OR_VIEW_NOT_FOUND", "Spark knows no table {source}", "name a table of its catalogue"),
    ("UNABLE_TO_INFER_SCHEMA", "{source} names no file with a schema", "name files of this --format"),
    ("Unexpected end of input stream", "{source} ends in the middle of its compressed data", "fetch the file again"),
    ("not a gzip file", "{source} is named .gz but is not compressed with gzip", "rename or compress it"),
    ("invalid stored block", "{source} holds damaged compressed data", "check it with gzip -t and fetch it again"),
    ("invalid block type", "{source} holds damaged compressed data", "check it with gzip -t and fetch it again"),
    ("invalid distance", "{source} holds damaged compressed data", "check it with gzip -t and fetch it again"),
    ("incorrect data check", "{source} holds damaged compressed data", "check it with gzip -t and fetch it again"),
    ("does not exist", "{source} names no file", "check the path"),
    ("matches 0 files", "{source} names no file", "a glob must match at least one file"),
    ("No FileSystem for scheme", "Spark has no file system for {source}", "add its connector to PYSPARK_SUBMIT_ARGS"),
    ("Permission denied", "{source} may not be read", "change its permissions"),
    ("No space left on device", *DISK_FULL),
)
"""A part of Java's text, the message, the remedy."""


@contextmanager
def explained(source: str) -> Iterator[None]:
    """Raise PrepError for Spark's failures that a user can mend; a failure inside our own code stays as it is."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except OSError as error:  # of the driver itself
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PrepError(*DISK_FULL) from error
        raise
    except (Py4JError, PySparkException) as error:
        java = getattr(error, "java_exception", None)
        text = str(error) if java is None else f"{java.toString()}\n{java.getCause()}"
        for part, message, remedy in KNOWN:
            if part in text:
                raise PrepError(message.format(source=source), remedy) from error
        if "Traceback (most recent call last)" in text:
            raise
        raise PrepError(f"Spark failed on {source}: {text.splitlines()[0]}", "see whether Spark can read it") from error
