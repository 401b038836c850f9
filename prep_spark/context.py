"""Starts Spark quietly, for as long as one job needs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from riprap.prep_spark.errors import PrepError

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN = 17  # Spark 4 needs it
JAVA_REMEDY = f"install Java {JAVA_VERSION_MIN} or later (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"

SETTINGS = {
    "spark.master": "local[*]",
    "spark.app.name": "riprap prep",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    # The JVM lives for seconds and only cuts text into lines: compiling less halves its CPU time and its memory.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""The settings that Spark is started with. The variable PYSPARK_SUBMIT_ARGS overrides them, for example to name a
cluster: `--master spark://host:7077 --conf spark.driver.host=10.0.0.1 pyspark-shell`."""

SPLIT_BYTES = 32 << 20
SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.maxPartitionBytes": str(SPLIT_BYTES),
    # A file costs as much as a split, so that no partition holds two of them: their order is then that of the input.
    "spark.sql.files.openCostInBytes": str(SPLIT_BYTES),
}
"""The reading of tables by a session."""


def java_version() -> int:
    """The major version of the Java that Spark would start. PrepError when there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        raise PrepError(
            f"Spark needs Java, and there is none {f'in JAVA_HOME ({home})' if home else 'on the PATH'}", JAVA_REMEDY
        )
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrepError(f"{java} does not run: {error}", JAVA_REMEDY) from error
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if not found:
        raise PrepError(f"{java} -version does not tell a version: {answer.stderr.strip()[:200]!r}", JAVA_REMEDY)
    version = int(found[1])
    if version < JAVA_VERSION_MIN:
        raise PrepError(f"Spark needs Java {JAVA_VERSION_MIN}, and {java} is Java {version}", JAVA_REMEDY)
    return version


@contextmanager
def spark_context(extra: Mapping[str, str] | None = None) -> Iterator[SparkContext]:
    """The caller's SparkContext if one runs in this process, else one of our own, which ends with the block.

    `extra` are settings of Spark that go before ours. What our own JVM prints goes to a file that is shown only when
    Spark does not start. PrepError when a Spark that runs already would have to be given settings.
    """
    # Spark asks for pandas where it hands over Arrow batches; no pandas object is ever made here.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        if extra:
            raise PrepError(
                f"a SparkSession runs in this process; it cannot be given {', '.join(sorted(extra))}",
                "give these settings where it is started, or stop it",
            )
        yield SparkContext._active_spark_context
        return
    java_version()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the first python3 of the PATH
    conf = SparkConf().setAll(list(settings(extra or {}).items()))
    with tempfile.TemporaryFile("w+") as log:
        gateway = _start_java(conf, log)
        try:
            context = _start_context(gateway)
            try:
                yield context
            finally:
                context.stop()
        finally:
            _stop_java(gateway)


def settings(extra: Mapping[str, str]) -> dict[str, str]:
    """The settings that Spark is started with; a cluster reaches the driver by its own name, not the loopback's."""
    chosen = SETTINGS | dict(extra)
    if not chosen["spark.master"].startswith("local"):
        for key in {"spark.driver.host", "spark.driver.bindAddress"} - extra.keys():
            del chosen[key]
    return chosen


def spark_session(context: SparkContext) -> SparkSession:
    """A session of its own on a context, set up to read tables in the order of their files."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate().newSession()
    assert session.sparkContext is context
    for key, value in SESSION_SETTINGS.items():
        session.conf.set(key, value)
    return session


def _start_java(conf: SparkConf, log: IO[str]) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    try:
        return launch_gateway(conf, {"stderr": log, "stdout": log})
    except PySparkException as error:
        log.seek(0)
        lines = [line for line in log.read().splitlines() if not line.startswith("\tat ")]
        tail = "\n".join(lines[-10:])
        raise PrepError(
            f"Spark did not start: {error}\n{tail}", "read the last lines above; they are Java's"
        ) from error


def _start_context(gateway: Any) -> SparkContext:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    try:
        return SparkContext(gateway=gateway)  # the JVM knows the settings, and what overrides them
    except (Py4JError, OSError, ValueError) as error:
        raise PrepError(f"Spark did not start: {str(error).splitlines()[0]}", "check PYSPARK_SUBMIT_ARGS") from error


def _stop_java(gateway: Any) -> None:
    """End the JVM, so that a later job in this process starts anew and nothing is left behind."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when this pipe does
    gateway.proc.wait()
