"""The schema of a topology file, section by section."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, PlainSerializer, StringConstraints, ValidatorFunctionWrapHandler, WrapValidator

from riprap.codec.ids import JOB_NAME, STAGE_NAME
from riprap.configs.base import Section
from riprap.configs.problems import FieldPath
from riprap.configs.schemes import FaultTolerance
from riprap.configs.shape import StageEdge

JobName = Annotated[str, StringConstraints(pattern=f"^{JOB_NAME.pattern}$")]
StageName = Annotated[str, StringConstraints(pattern=f"^{STAGE_NAME.pattern}$")]
OperatorPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]
ServerAddress = Annotated[str, StringConstraints(pattern=r"^(tcp|ipc)://\S+$")]
STAGES_MAX, EDGES_MAX = 256, 1024
"""More than people write, and few enough to be checked within a fraction of a second."""
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]

PATTERNS_EXPLAINED: dict[FieldPath, str] = {
    ("job",): "a name of letters, digits, _ and -, at most 64, a letter or digit first",
    ("stages", "*"): "a name of lower-case letters, digits and _, at most 32, a letter first",
    ("stages", "*", "operator"): "an import path MODULE:CLASS, for example logistic_regression:Gradient",
    ("fault_tolerance", "code"): "one of vandermonde, stable, xor, gf256, or MODULE:CLASS, a code of your own",
    ("edges", "*", "from"): "the name of a stage",
    ("edges", "*", "to"): "the name of a stage",
}
"""What people read in place of a regular expression."""


def _count_or_forever(value: Any, count: ValidatorFunctionWrapHandler) -> Any:
    return value if value == "forever" else count(value)


Repeat = Annotated[int, Field(ge=1), WrapValidator(_count_or_forever), PlainSerializer(lambda value: value)]


class InputSection(Section):
    """Where the items come from: a directory of shards, streamed `repeat` times, cut after `limit` items.

    `verify`: read the shards before they are streamed, and look for damage and for bad rows. `bad_rows`: whether rows
    with NaN or infinity fail the job, are dropped, or kept. A source of the user's own may do without all this.
    """

    path: str | None = Field(default=None, min_length=1)
    repeat: Repeat = 1
    limit: int | None = Field(default=None, ge=1)
    verify: bool = True
    bad_rows: Literal["fail", "drop", "keep"] = "fail"


class StageSection(Section):
    """An operator, its options, and the number of its tasks; a source may have an input of its own.

    `threads`: the compute threads of a task of a general topology. `cpus` pins task i to the CPU cpus[i modulo their
    number]; with several threads to the next so many of them.
    """

    operator: OperatorPath
    parallelism: int = Field(default=1, ge=1, le=1024)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    input: InputSection | None = None
    threads: int = Field(default=1, ge=1, le=64)
    cpus: Annotated[list[Annotated[int, Field(ge=0, lt=4096)]], Field(min_length=1)] | None = None


class EdgeSection(Section):
    """A stream of blocks between two stages; `feedback: true` marks one that runs back and may close a cycle.

    `consistency` says how far its receiver may run ahead of it: bsp not at all, ssp by `staleness` windows, asp freely.
    """

    upstream: StageName = Field(alias="from")
    downstream: StageName = Field(alias="to")
    partitioning: Literal["one_to_one", "split", "merge", "full", "stripe"] | None = None
    feedback: bool = False
    consistency: Literal["bsp", "ssp", "asp"] = "bsp"
    staleness: int = Field(default=0, ge=0, le=1_000_000)

    def edge(self, index: int) -> StageEdge:
        """The edge this section describes; feedback goes to all tasks unless the file says otherwise."""
        partitioning = self.partitioning or "full"
        return StageEdge(
            index, self.upstream, self.downstream, partitioning, self.feedback, self.consistency, self.staleness
        )


class LinksSection(Section):
    """The size of a block in bytes, how many epochs may be under way at once, and how payloads travel.

    `transport`: "auto" hands payloads from worker to worker of one host by reference, "zeromq" uses sockets alone.
    `shared_bytes`: the most memory that one worker shares for that; what finds no room goes over sockets.
    """

    block_bytes: int = Field(default=262_144, ge=1024, le=1 << 26)
    window_epochs: int = Field(default=2, ge=1, le=1024)
    transport: Literal["auto", "zeromq"] = "auto"
    shared_bytes: int = Field(default=1 << 27, ge=1 << 20, le=1 << 36)


class ClusterSection(Section):
    """Deadlines of the control plane, in seconds, and when it gives up restarting a worker (controller/limits.py)."""

    heartbeat_timeout_s: Seconds = 2.0
    startup_timeout_s: Seconds = 30.0
    recovery_timeout_s: Seconds = 60.0
    stall_timeout_s: Seconds = 60.0
    deployment_timeout_s: Seconds = 60.0
    finishing_timeout_s: Seconds = 30.0
    restarts_max: int = Field(default=10, ge=1, le=1_000_000)
    restarts_window_s: Seconds = 60.0


class BackupSection(Section):
    """Where sinks and persisting schemes keep their states and items.

    `servers`: how many the launcher starts on its host (0: none, and lost sinks cannot be restored), or the addresses
    of servers that run. `storage`: a directory or an fsspec URL for those that the launcher starts. `cpu_share`: of the
    CPU time that a task uses, what its backups may take, where a scheme is free in when it makes them.
    """

    servers: Annotated[int, Field(ge=0, le=5)] | Annotated[list[ServerAddress], Field(min_length=1, max_length=5)] = 1
    storage: str | None = Field(default=None, min_length=1)
    durability: Literal["always", "interval", "never"] = "interval"
    interval_ms: int = Field(default=100, ge=1, le=60_000)
    cpu_share: float = Field(default=0.01, gt=0, le=1)


class OutputSection(Section):
    """Where the rows of each window go that the destinations write, a file for each window and task.

    `path` is a directory, or the name of a file with {window} in it, {task} where there are several destination tasks,
    {name} where an operator writes several kinds of rows.
    """

    path: str = Field(min_length=1)
    format: Literal["parquet", "csv", "jsonl"] = "parquet"


class TopologyFile(Section):
    """A whole topology file."""

    job: JobName
    input: InputSection = Field(default_factory=InputSection)
    micro_batch: int = Field(ge=1, le=1 << 31)
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    stages: dict[StageName, StageSection] = Field(max_length=STAGES_MAX)
    edges: list[EdgeSection] = Field(max_length=EDGES_MAX)
    fault_tolerance: FaultTolerance
    links: LinksSection = Field(default_factory=LinksSection)
    backup: BackupSection = Field(default_factory=BackupSection)
    cluster: ClusterSection = Field(default_factory=ClusterSection)
    output: OutputSection | None = None
