"""The section `cluster`: the longest each wait of a job may last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from riprap.codec.errors import ConfigError
from riprap.configs.declared import Bounds, TopologySection

Seconds = Annotated[float, Bounds(gt=0, le=86_400, allow_inf_nan=False)]


@dataclass(frozen=True)
class JobLimits(TopologySection):
    """The deadlines of one job, in seconds, and the bound on restarting it again and again."""

    heartbeat_timeout_s: Seconds = 2.0
    """A worker that does not answer for this long is lost. One that answers may compute for as long as it likes."""
    startup_timeout_s: Seconds = 30.0
    """From assignment to `ready`, for each process; also how long a new job waits for a first agent."""
    recovery_timeout_s: Seconds = 60.0
    """From the loss of a worker until its replacement is up."""
    stall_timeout_s: Seconds = 60.0
    """From one committed epoch of any sink to the next, while all are up; the time of a long call does not count."""
    deployment_timeout_s: Seconds = 60.0
    """From the first assignment until all workers are up."""
    finishing_timeout_s: Seconds = 30.0
    """From the stop message until the last worker has exited."""
    restarts_max: Annotated[int, Bounds(ge=1, le=1_000_000)] = 10
    """More deaths of a worker than this without an item processed, within the window, fail the job."""
    restarts_window_s: Seconds = 60.0

    @classmethod
    def from_topology(cls, topology: Mapping[str, Any]) -> JobLimits:
        """Read the section of a topology that nobody has checked, with defaults for what is absent; keys of another
        version are passed over. ConfigError names a value that is no positive number."""
        section = topology.get("cluster") or {}
        if not isinstance(section, Mapping):
            raise ConfigError("`cluster` must be a map of deadlines", "correct it in the topology")
        known = cls.keys()
        given = {name: section[name] for name in known if section.get(name) is not None}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
                raise ConfigError(f"cluster.{name} is {value!r}, not a positive number", "correct it in the topology")
        return cls.of(given)
