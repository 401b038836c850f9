"""How long each wait of a job may last, from the `cluster` section of its topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from riprap.codec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The deadlines of one job, in seconds, and when restarting it again and again is given up."""

    heartbeat_timeout_s: float = 2.0
    """A worker that does not answer for this long is lost. One that answers may compute for as long as it likes."""
    startup_timeout_s: float = 30.0
    """From assignment to `ready`, for each process; also how long a new job waits for a first agent."""
    deployment_timeout_s: float = 60.0
    """From the first assignment until all workers are up."""
    recovery_timeout_s: float = 60.0
    """From the loss of a worker until its replacement is up."""
    stall_timeout_s: float = 60.0
    """From one committed epoch of any sink to the next, while the job runs; the time of a long call does not count."""
    finishing_timeout_s: float = 30.0
    """From the stop message until the last worker has exited."""
    restarts_max: int = 10
    """More deaths of a worker than this without an item processed, within the window, fail the job."""
    restarts_window_s: float = 60.0

    @classmethod
    def from_topology(cls, topology: Mapping[str, Any]) -> JobLimits:
        """Read the section, with defaults for what is absent; ConfigError names a value that is no positive number."""
        section = topology.get("cluster") or {}
        if not isinstance(section, Mapping):
            raise ConfigError("`cluster` must be a map of deadlines", "correct it in the topology")
        given: dict[str, Any] = {}
        for name in (field.name for field in fields(cls)):
            value = section.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
                raise ConfigError(f"cluster.{name} is {value!r}, not a positive number", "correct it in the topology")
            given[name] = value
        return cls(**given)
