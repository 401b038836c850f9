"""The sections of a topology file, each key declared once: its name, type, bounds, default and meaning.

The keys at the top of a file are those of Topology (configs/topology.py). Edges, `cluster` and `fault_tolerance` have
files of their own (configs/shape.py, configs/limits.py, configs/schemes.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from riprap.codec.ids import LABEL_PART
from riprap.configs.declared import Bounds, TopologySection, Written, plain

OperatorPath = Annotated[str, Bounds(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]
ServerAddress = Annotated[str, Bounds(pattern=r"^(tcp|ipc)://\S+$")]
LabelKey = Annotated[str, Bounds(pattern=f"^{LABEL_PART.pattern}$")]
PathText = Annotated[str, Bounds(min_length=1, pattern=r"^[^\x00]+$")]
"""A path, or a URL; no path has a zero byte."""
COUNT_MAX = 1 << 62
"""The most items of an input, and times that it is streamed: a message holds 64 bits."""
SERVERS_MAX = 5
"""The most backup servers of a job, and so of what `riprap up` starts."""
CpuList = Annotated[list[Annotated[int, Bounds(ge=0, lt=4096)]], Bounds(min_length=1)]


def _count_or_forever() -> Any:
    from pydantic import Field, WrapValidator
    from pydantic_core import PydanticCustomError

    def checked(value: Any, count: Callable[[Any], int]) -> Any:
        if isinstance(value, str) and value != "forever":
            raise PydanticCustomError("times", "a number of times, or forever")
        return value if value == "forever" else count(value)

    return Annotated[int, Field(ge=1, le=COUNT_MAX), WrapValidator(checked)]


@dataclass(frozen=True)
class Input(TopologySection):
    """The origin of the items. A user's own source may do without all this."""

    path: PathText | None = None
    """A directory of shards, or text; absolute in a loaded topology. Or tcp://HOST:PORT, one for each task."""
    follow: bool = False
    """The text file, or the files of the directory, grow: what is added is read as it comes."""
    window_seconds: Annotated[float, Bounds(gt=0, le=86_400)] | None = None
    """The time after which a window of an input that is followed or comes over TCP closes, if not by its items."""
    repeat: Annotated[int | Literal["forever"], Written(_count_or_forever, lambda found: found)] = 1
    """Number of times that the input is streamed."""
    limit: Annotated[int, Bounds(ge=1, le=COUNT_MAX)] | None = None
    """The items after which the stream is cut."""
    rate: Annotated[float, Bounds(gt=0, allow_inf_nan=False)] | None = None
    """Items a second, of all tasks that read it together; as fast as can be where there is none."""
    verify: bool = True
    """Read the shards before they are streamed, and look for damage and for bad rows."""
    bad_rows: Literal["fail", "drop", "keep"] = "fail"
    """Rows with NaN or infinity fail the job, are dropped, or kept."""

    @property
    def is_remote(self) -> bool:
        """True when a server sends the items."""
        return self.path is not None and self.path.startswith("tcp://")

    @property
    def is_live(self) -> bool:
        """True when its length cannot be known, so that it is logged as it is read."""
        return self.follow or self.is_remote


def _schemes() -> Any:
    from riprap.configs.schemes import FaultTolerance

    return FaultTolerance


Scheme = Annotated[Mapping[str, Any], Written(_schemes, lambda found: MappingProxyType(found.model_dump()))]
"""A scheme, and its options (configs/schemes.py)."""


def _json_mapping() -> Any:
    from pydantic import JsonValue

    return dict[str, JsonValue]


def _no_options() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class StageOptions(TopologySection):
    """An operator, its options, and the number of its tasks."""

    operator: OperatorPath
    """An import path MODULE:CLASS."""
    parallelism: Annotated[int, Bounds(ge=1, le=1024)] = 1
    options: Annotated[Mapping[str, Any], Written(_json_mapping, MappingProxyType)] = field(default_factory=_no_options)
    """The keyword arguments of the operator's constructor."""
    input: Input | None = None
    """The input of a source that does not read the job's."""
    threads: Annotated[int, Bounds(ge=1, le=64)] = 1
    """The compute threads of each task; more than one for DataflowOperators that prepare blocks."""
    cpus: Annotated[tuple[int, ...], Written(lambda: CpuList, tuple)] | None = None
    """Task i is pinned to the CPU cpus[i modulo their number]; a task of n threads to the next n from there."""
    fault_tolerance: Scheme | None = None
    """The scheme of a stage that does not go by the job's."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The stage that `to_plain` wrote; shares nothing with it."""
        own, cpus = values.get("input"), values.get("cpus")
        options = MappingProxyType(plain(values.get("options", {})))
        made = {"options": options, "input": Input.of(own) if own else None, "cpus": tuple(cpus) if cpus else None}
        scheme = values.get("fault_tolerance")
        made["fault_tolerance"] = MappingProxyType(dict(scheme)) if scheme else None
        return super().of({**values, **made})


@dataclass(frozen=True)
class LinkOptions(TopologySection):
    """The movement of data."""

    block_bytes: Annotated[int, Bounds(ge=1024, le=1 << 26)] = 262_144
    """The size of a block."""
    window_epochs: Annotated[int, Bounds(ge=1, le=1024)] = 2
    """Most epochs under way at once."""
    transport: Literal["auto", "zeromq"] = "auto"
    """"auto" hands payloads from worker to worker of one host by reference, "zeromq" uses sockets alone."""
    shared_bytes: Annotated[int, Bounds(ge=1 << 20, le=1 << 36)] = 1 << 27
    """The most memory that one worker shares for that; payloads that find no room go over sockets."""


def _number_or_addresses() -> Any:
    from pydantic import ValidationError, WrapValidator
    from pydantic_core import PydanticCustomError

    def checked(value: Any, one_of_both: Callable[[Any], Any]) -> Any:
        try:
            return one_of_both(value)
        except ValidationError:  # a complaint for each of the two, of which one is never meant
            expected = (
                f"a number from 0 to {SERVERS_MAX}, or a list of 1 to {SERVERS_MAX} addresses such as tcp://HOST:PORT"
            )
            raise PydanticCustomError("servers", expected) from None

    number = Annotated[int, Bounds(ge=0, le=SERVERS_MAX)]
    addresses = Annotated[list[ServerAddress], Bounds(min_length=1, max_length=SERVERS_MAX)]
    return Annotated[number | addresses, WrapValidator(checked)]


@dataclass(frozen=True)
class BackupOptions(TopologySection):
    """The place where sinks and persisting schemes keep their states and items."""

    servers: Annotated[int | list[str], Written(_number_or_addresses, lambda found: found)] = 1
    """Number that the launcher starts on its host (0: none, and lost sinks cannot be restored), or the addresses of
    servers that run."""
    storage: PathText | None = None
    """A directory or an fsspec URL for the servers that the launcher starts."""
    durability: Literal["always", "interval", "never"] = "interval"
    interval_ms: Annotated[int, Bounds(ge=1, le=60_000)] = 100
    cpu_share: Annotated[float, Bounds(gt=0, le=1)] = 0.01
    """The share of a task's CPU time that its backups may take, under a scheme that chooses when to make them."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The servers that can be reached; none before the launcher has started them."""
        return () if isinstance(self.servers, int) else tuple(self.servers)


@dataclass(frozen=True)
class PlacementOptions(TopologySection):
    """The spread of the tasks of each stage over hosts, in the words of Kubernetes' topologySpreadConstraints."""

    spread: Annotated[
        tuple[str, ...], Written(lambda: Annotated[list[LabelKey], Bounds(min_length=1, max_length=8)], tuple)
    ] = ("host",)
    """The labels of hosts (riprap agent --label) over whose values tasks are spread; `host` is each host's name."""
    max_skew: Annotated[int, Bounds(ge=1, le=1024)] = 1
    """The most by which the numbers of a stage's tasks may differ between two values of a label."""
    when_unsatisfiable: Literal["fail", "best_effort"] = "fail"
    """Do not start where the hosts do not allow that, or come as near as can be."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The section that `to_plain` wrote."""
        return super().of({**values, "spread": tuple(values.get("spread", ("host",)))})


@dataclass(frozen=True)
class Output(TopologySection):
    """The place of the rows that destinations write, a file for each window and task."""

    path: PathText
    """A directory, or the name of a file with {window} in it, {task} where there are several destination tasks, {name}
    where an operator writes several kinds of rows; absolute in a loaded topology."""
    format: Literal["parquet", "csv", "jsonl"] = "parquet"

    def file(self, name: str, task: int | str, window: int | str) -> Path:
        """The file of a window's rows: `NAME.TASK.WINDOW.FORMAT` in a directory; numbers may be patterns of `glob`."""
        if not self.is_pattern:
            return Path(self.path, f"{name}.{task}.{window}.{self.format}")
        given = {"{name}": name, "{task}": str(task), "{window}": str(window)}
        return Path(re.sub("|".join(map(re.escape, given)), lambda found: given[found.group()], self.path))

    @property
    def is_pattern(self) -> bool:
        """True when the path names a file and not a directory."""
        return "{window}" in self.path
