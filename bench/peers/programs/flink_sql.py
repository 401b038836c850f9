"""The base of the programs for Flink SQL: a streaming session of two tasks, which aggregates in two phases."""

from __future__ import annotations

from pyflink.table import EnvironmentSettings, TableEnvironment

SETTINGS = {
    "parallelism.default": "2",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "60 s",
    "table.exec.mini-batch.size": "10000000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "pipeline.object-reuse": "true",
    "taskmanager.memory.managed.size": "256m",
}


def session() -> TableEnvironment:
    """In streaming mode; totals are put out when the input ends."""
    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        table.get_config().set(name, value)
    return table
