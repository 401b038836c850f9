"""The demands of a submitted job: its workers, its sinks and its deadlines, read from the topology once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from riprap.codec.errors import ConfigError
from riprap.codec.ids import JOB_NAME, STAGE_NAME, WorkerId
from riprap.codec.json_text import to_json
from riprap.codec.trust.paths import problem_with_path
from riprap.configs.limits import JobLimits
from riprap.controller.completeness import Expected
from riprap.controller.faults import Fault, check_hosts_are_killed, read_faults
from riprap.controller.messages import CHANNEL_BYTES_MAX, pack
from riprap.controller.placement import Rules
from riprap.controller.victims import check_group, is_group, names_hosts

WORKERS_MAX = 4096
TOPOLOGY_BYTES_MAX = CHANNEL_BYTES_MAX * 3 // 4
"""A topology goes to each worker in one message, with what else it must know, and into one znode."""

Check = Callable[[str, dict[str, Any]], None]
"""Called with a job's name and its topology as submitted; ConfigError lists what its workers could not read."""


def unchecked(name: str, topology: dict[str, Any]) -> None:
    """For control planes whose workers read nothing of the topology."""


def check_size(topology: dict[str, Any]) -> None:
    """ConfigError for a topology that could not be handed to its workers, or stored."""
    size = max(len(pack(topology)), len(to_json(topology)))
    if size > TOPOLOGY_BYTES_MAX:
        raise ConfigError(
            f"the topology is {size:,} bytes long, and {TOPOLOGY_BYTES_MAX:,} is the most",
            "have operators read what is long from files",
        )


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as submitted. `topology` is what the workers get; nothing in it is changed."""

    name: str
    run_dir: str
    topology: dict[str, Any]
    workers: tuple[WorkerId, ...]
    sinks: frozenset[WorkerId]
    """The workers that say `done`; when all have, the job is finished."""
    limits: JobLimits
    submission: str = ""
    """Tells a request that is made again from a new one for the same job."""
    expected: Expected = field(default_factory=Expected)
    """The commits that complete the job."""
    faults: tuple[Fault, ...] = ()
    """The faults to be injected."""
    rules: Rules = field(default_factory=Rules)
    """Demands on the hosts of its workers."""

    @property
    def sources(self) -> frozenset[str]:
        """The stages that no edge leads to."""
        led_to = {edge.get("to") for edge in self.topology.get("edges") or () if not edge.get("feedback")}
        return frozenset(worker.stage for worker in self.workers) - led_to

    @property
    def endless(self) -> bool:
        """True when the submitter found that the input has no end."""
        schema = self.topology.get("schema") or {}
        return "items" in schema and schema["items"] is None

    @property
    def replicas(self) -> frozenset[WorkerId]:
        """Those that run from the start."""
        copies = (str(worker) for worker in self.workers if worker.copy)
        return frozenset(map(WorkerId.parse, self.topology.get("wanted", copies)))

    @property
    def adapts(self) -> bool:
        """True of a job in which other replicas may be asked for while it runs."""
        return "wanted" in self.topology

    @property
    def goes_on(self) -> bool:
        """True for a further attempt, whose workers may have been restored."""
        return self.topology.get("attempt", 1) != 1

    @property
    def checkpoint(self) -> int:
        """The checkpoint of an earlier attempt that the job goes on from; 0 for none."""
        return int(self.topology.get("checkpoint") or 0)

    @property
    def checkpoints_before(self) -> int:
        """Numbers up to this one belong to the checkpoints of the job whose savepoint this one begins from."""
        return int(self.topology.get("checkpoints_before") or 0)

    @property
    def resume(self) -> str:
        """The command that goes on with the job should it fail; empty when the submitter names none."""
        return str(self.topology.get("resume") or "")

    def asks_the_same(self, other: JobSpec) -> bool:
        """True when the other, of the same name, is to run the same in the same place."""
        return (self.topology, self.run_dir) == (other.topology, other.run_dir)

    @classmethod
    def read(cls, name: str, topology: Any, run_dir: str, submission: str = "") -> JobSpec:
        """Check the parts of a topology that the control plane needs; ConfigError names the first wrong one."""
        if not isinstance(name, str) or not JOB_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is not a job name", "use letters, digits, - and _, at most 64 of them")
        if not isinstance(topology, dict) or not isinstance(run_dir, str) or not run_dir.startswith("/"):
            raise ConfigError(
                "a job is submitted with a topology and an absolute run directory",
                "use `riprap run` or `riprap submit`",
            )
        if problem := problem_with_path(run_dir):
            raise ConfigError(f"the run directory {run_dir!r}: {problem}", "name another with --out")
        workers = _workers(topology.get("stages"))
        workers += _copies("copies", topology.get("copies", []), workers)
        _copies("wanted", topology.get("wanted", []), workers)
        limits, expected = JobLimits.from_topology(topology), Expected.from_topology(topology)
        faults, rules, sinks = _faults(topology, workers), Rules.of(topology), _sinks(topology, workers)
        return cls(name, run_dir, topology, workers, sinks, limits, submission, expected, faults, rules)


def _workers(stages: Any) -> tuple[WorkerId, ...]:
    """All tasks of all stages, in the topology's order."""
    if not isinstance(stages, Mapping) or not stages:
        raise ConfigError("the topology has no stages", "list at least one stage under `stages`")
    workers: list[WorkerId] = []
    for name, stage in stages.items():
        parallelism = stage.get("parallelism", 1) if isinstance(stage, Mapping) else None
        if not isinstance(name, str) or not STAGE_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is not a stage name", "use lower-case letters, digits and _")
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
            raise ConfigError(f"stages.{name}.parallelism must be a whole number of 1 or more", "correct the topology")
        if len(workers) + parallelism > WORKERS_MAX:
            raise ConfigError(f"the topology has more than {WORKERS_MAX} workers", "lower the parallelism")
        workers += [WorkerId(name, index) for index in range(parallelism)]
    return tuple(workers)


def _copies(key: str, named: Any, workers: tuple[WorkerId, ...]) -> tuple[WorkerId, ...]:
    """The active replicas that a key of the topology names."""
    try:
        copies = tuple(map(WorkerId.parse, named))
    except (TypeError, ValueError, AttributeError):
        raise ConfigError(f"`{key}` must be a list of worker ids", "correct the topology") from None
    for copy in copies:
        if not copy.copy or copy.primary not in workers:
            raise ConfigError(f"`{key}` names {copy}, which is no replica of a task", "correct the topology")
    if len(workers) + len(copies) > WORKERS_MAX:
        raise ConfigError(f"the topology has more than {WORKERS_MAX} workers", "name fewer replicas")
    return tuple(dict.fromkeys(copies))


def _faults(topology: Mapping[str, Any], workers: tuple[WorkerId, ...]) -> tuple[Fault, ...]:
    faults = read_faults(topology)
    names = {str(worker) for worker in workers}
    for fault in faults:
        if is_group(fault.target):
            _check_group(fault, {worker.stage for worker in workers})
        elif fault.target not in names:
            raise ConfigError(f"fault '{fault}': the job has no worker {fault.target}", "name one of its workers")
    return faults


def _check_group(fault: Fault, stages: set[str]) -> None:
    """Refuse a stage that is not there, and what no agent can do. Hosts are known only when the moment has come."""
    check_hosts_are_killed(fault)
    if not names_hosts(fault.target):
        check_group(fault.target, stages, {})


def _sinks(topology: Mapping[str, Any], workers: tuple[WorkerId, ...]) -> frozenset[WorkerId]:
    """The workers that `sinks` names, by stage or by worker id; without it, the tasks of the last stage."""
    primaries = [worker for worker in workers if not worker.copy]
    named = topology.get("sinks") or [primaries[-1].stage]
    if not isinstance(named, list):
        raise ConfigError("`sinks` must be a list of stages or worker ids", "correct the topology")
    sinks = frozenset(worker for worker in primaries if worker.stage in named or str(worker) in named)
    known = {worker.stage for worker in sinks} | {str(worker) for worker in sinks}
    unknown = [name for name in named if name not in known]
    if unknown:
        raise ConfigError(f"`sinks` names {unknown[0]!r}, which is no stage and no worker", "correct the topology")
    return sinks
