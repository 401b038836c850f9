"""The `fault_tolerance` section: one model class per scheme, with what each scheme demands of a topology.

To add a scheme, add its class here and to `FaultTolerance`; nothing else in this folder knows scheme names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from riprap.codec.errors import ConfigError
from riprap.codec.ids import BLOCKS_MAX
from riprap.configs.base import Section
from riprap.configs.budget import BUDGET, replaceable, replicas_allowed, why_destinations_have_none
from riprap.configs.plan_file import PlanFile
from riprap.configs.problems import FieldPath, Problem
from riprap.configs.roles import role_problems
from riprap.configs.shape import Shape, StageEdge

CODES = ("vandermonde", "stable", "xor", "gf256")
REAL_CODES = ("stable", "vandermonde")
"""The codes over the real numbers, in which results of a linear function decode to results (LEC III-D)."""


HEDGE_MS_MAX = 3_600_000
K_MAX = 16
"""The most data blocks of a row where none are given: of longer rows more has to be fetched to decode one block."""


class SchemeOptions(Section):
    """The base of all schemes' options: they may look at the topology's shape and say what does not fit."""

    needs_backup: ClassVar[bool] = False
    """True when it cannot do without backup servers."""
    together: ClassVar[str] = ""
    """For what it has to be the scheme of all stages; empty where each may have one of its own."""

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """Conflicts of this scheme with `shape`; called only when all stages and edges are well formed."""
        yield from ()

    def chosen(self, shape: Shape) -> dict[str, Any]:
        """Options that follow from `shape` where the file leaves them out."""
        return {}


class NoScheme(SchemeOptions):
    """Nothing is protected: the items and state of a dead worker are lost and counted."""

    scheme: Literal["none"]


class CodesProcessors(SchemeOptions):
    """Codes the processors of a job: a stage of sources, one of processors, and one of sinks."""

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """Exactly those stages."""
        yield from role_problems(shape)


def _hedge(value: Any) -> str | int:
    if value in ("none", "cost") or (type(value) is int and 1 <= value <= HEDGE_MS_MAX):
        return value
    raise PydanticCustomError("hedge", "none, cost, or milliseconds from 1 to 3600000")


class Erasure(CodesProcessors):
    """r parity blocks for every k data blocks (LEC III)."""

    scheme: Literal["erasure"]
    code: str = Field(default="gf256", pattern=rf"^({'|'.join(CODES)}|[\w.]+:\w+)$")
    k: int | None = Field(default=None, ge=1, le=BLOCKS_MAX - 1)
    """Data blocks of a row; None: as many as the tasks of the striped stage leave beside r, at most K_MAX."""
    r: int | None = Field(default=None, ge=0, le=BLOCKS_MAX - 1)
    """Parity blocks of a row; None: 2, or 1 where there are fewer than 4 tasks, the code is xor or k leaves no more."""
    attachment: Literal["lazy", "eager", "hybrid"] = "lazy"
    incremental: bool = True
    """True when the parity of a row is encoded as soon as the row is read, or that of all rows when the epoch is."""
    rows: int = Field(default=1, ge=1, le=1024)
    """The fewest stripe rows of an epoch. With several, parity of the first leaves while the last is still read."""
    hedge: Annotated[str | int, BeforeValidator(_hedge)] = "cost"
    """The wait for results: until a worker is known to be lost, while it pays, or a number of milliseconds."""

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """The code must be able to make r parities, and k + r blocks of a row need as many processors."""
        yield from super().problems(shape)
        k, r = self.counts(shape)
        yield from self.code_problems(("fault_tolerance",), k, r)
        stripes = _stripes(shape)
        if not stripes:
            yield Problem(
                ("fault_tolerance", "scheme"),
                "is erasure, but no edge is striped",
                "partitioning: stripe on the edge whose items are to be coded",
            )
        for edge in stripes:
            yield from self.width_problems(edge.downstream, shape.parallelism[edge.downstream], k, r)

    def code_problems(self, at: FieldPath, k: int, r: int) -> Iterator[Problem]:
        """Problems of the code with k and r; the section stands at `at`."""
        if self.code == "xor" and r > 1:
            yield Problem((*at, "r"), f"is {r}", "1 with the code xor", "set r to 1 or code to gf256")
        if self.attachment == "hybrid" and self.code in CODES and self.code not in REAL_CODES:
            yield Problem(
                (*at, "code"),
                f"is {self.code}, which does not commute with linear functions",
                f"{' or '.join(REAL_CODES)} with the attachment hybrid",
                "set code to stable, or attachment to lazy, which is exact",
            )
        if k + r > BLOCKS_MAX:
            yield Problem((*at, "k"), f"k + r is {k + r}", f"at most {BLOCKS_MAX}")

    def width_problems(self, stage: str, parallelism: int, k: int, r: int) -> Iterator[Problem]:
        """A stage of fewer tasks than a row has blocks."""
        if parallelism < k + r:
            yield Problem(
                ("stages", stage, "parallelism"),
                f"is {parallelism}",
                f"at least k + r = {k + r} tasks, for the blocks of a stripe row lie on different workers",
                f"set stages.{stage}.parallelism to {k + r}, or k and r lower",
            )

    def chosen(self, shape: Shape) -> dict[str, Any]:
        """k and r."""
        return dict(zip("kr", self.counts(shape)))

    def counts(self, shape: Shape) -> tuple[int, int]:
        """k and r, chosen by the tasks of the striped stage where the file leaves them out."""
        return self.counts_of(min((shape.parallelism[edge.downstream] for edge in _stripes(shape)), default=1))

    def counts_of(self, tasks: int) -> tuple[int, int]:
        """The same for a stage of this many tasks."""
        r = self.r
        if r is None:
            most = 1 if tasks < 4 or self.code == "xor" else 2
            r = most if self.k is None else max(1, min(most, tasks - self.k))
        return self.k if self.k is not None else max(1, min(K_MAX, tasks - r)), r


def _stripes(shape: Shape) -> list[StageEdge]:
    return [edge for edge in shape.data_edges if edge.partitioning == "stripe"]


class Replication(CodesProcessors):
    """Every block goes to `copies` workers (LEC V, Rep-wx)."""

    scheme: Literal["replication"]
    copies: int = Field(default=2, ge=2, le=16)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """Processors form groups of `copies`."""
        yield from super().problems(shape)
        for stage in shape.processors:
            yield from self.group_problems(stage, shape.parallelism[stage])

    def group_problems(self, stage: str, parallelism: int) -> Iterator[Problem]:
        """A stage whose tasks form no groups."""
        if parallelism % self.copies:
            fitting = -(-parallelism // self.copies) * self.copies
            yield Problem(
                ("stages", stage, "parallelism"),
                f"is {parallelism}",
                f"a multiple of copies = {self.copies}",
                f"set stages.{stage}.parallelism to {fitting}",
            )


class Saving(SchemeOptions):
    """Saves states on backup servers, in any topology. A striped edge is dealt in turn, for nothing is coded."""

    needs_backup: ClassVar[bool] = True


class Reactive(Saving):
    """Items and states are persisted on the backup servers, and restored (LEC V-A, after Spark)."""

    scheme: Literal["reactive"]


class ApproximateOptions(Saving):
    """Backups when a loss would exceed a threshold (AF 3.4): Theta of state divergence, L unprocessed items,
    Gamma unacknowledged items, over all workers and failures together; within a window if there are windows.
    """

    scheme: Literal["approximate"]
    theta: float = Field(default=1e4, ge=0, allow_inf_nan=True)
    l: float = Field(  # noqa: E741 - the paper's letter, and the key of the YAML
        default=1e3, ge=0, allow_inf_nan=True
    )
    gamma: float = Field(default=1e3, ge=1, allow_inf_nan=True)
    beta: float = Field(default=1.0, ge=1, allow_inf_nan=False)
    window: Literal["none", "hopping", "sliding", "decaying"] = "none"
    window_epochs: int = Field(default=1, ge=1)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """No loops: tasks would wait for what they may lose."""
        for edge in shape.edges:
            if edge.loop:
                yield Problem(
                    ("edges", edge.index, "loop"),
                    "approximate may lose blocks that a loop waits for",
                    "an exact scheme",
                    "set fault_tolerance.scheme to barrier, for example",
                )


class MiniBatchOptions(Saving):
    """Items and state of each micro-batch are saved (AF 6.1.1, after Spark Streaming)."""

    scheme: Literal["mini_batch"]


class Keeping(Saving):
    """Senders keep what receivers may need once more; so much of it in memory, the rest on disk."""

    memory_bytes: int = Field(default=1 << 30, ge=1 << 16)


class UpstreamBackupOptions(Keeping):
    """Senders keep and save every item until a saved state of the receiver includes it (AF 6.1.1)."""

    scheme: Literal["upstream_backup"]


def _budget(value: Any) -> Any:
    if value is None or (type(value) is int and value >= 0) or (isinstance(value, str) and value.endswith("%")):
        return value
    raise PydanticCustomError("budget", BUDGET)


REBUILD_AFTER_S = 10.0


class PartiallyActiveOptions(Keeping):
    """Each task saves its state by itself, senders keep what that lacks, and all take blocks in one order (PPA)."""

    together: ClassVar[str] = "has all stages take blocks in one order"

    scheme: Literal["partially_active"]
    checkpoint_s: float | None = Field(default=1.0, gt=0, le=86_400, allow_inf_nan=False)
    """The state is saved at the first end of a window after so many seconds; None: only destinations save theirs."""
    replay_s: float | None = Field(default=None, gt=0, le=86_400, allow_inf_nan=False)
    """Without checkpoints: so much of its input a task computes once more, from an empty state, after Storm."""
    tentative_after_ms: float | None = Field(default=None, gt=0, le=86_400_000, allow_inf_nan=False)
    """A task that has waited so long for a dead one goes on without it, beside: tentative output, later made exact."""
    reconcile: bool = True
    """False: it is never made exact, but goes on in place, after the paper; to compare with."""
    rebuild_after_s: float | None = Field(default=REBUILD_AFTER_S, gt=0, le=86_400, allow_inf_nan=False)
    """A copy that is so far behind the other one begins anew from what that one has saved; no sooner than that saves,
    where nothing is said of it."""
    replicate: list[str] = Field(default_factory=list, max_length=4096)
    """Tasks that have an active replica: workers (`count.0`), or stages for all of theirs."""
    plan: str | None = None
    """The plan.json that names them instead (riprap plan)."""
    budget: Annotated[int | str | None, BeforeValidator(_budget)] = None
    """The number or share (`25%`) of tasks that have one, where a plan is to be made before the job starts."""
    planner: Literal["auto", "exact", "dp", "greedy", "structure_aware"] = "auto"
    """The algorithm of that plan, as of `riprap plan --algorithm`."""
    adapt: bool = False
    """Other tasks may get the replicas while the job runs: `riprap adapt`."""

    @model_validator(mode="after")
    def _build_no_sooner_than_others_save(self) -> PartiallyActiveOptions:
        if "rebuild_after_s" not in self.model_fields_set:
            object.__setattr__(self, "rebuild_after_s", max(REBUILD_AFTER_S, self.checkpoint_s or 0.0))
        return self

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """All that comes in has a place in the order of windows, and replicas can do without what they lack."""
        yield from self._feedback_problems(shape)
        yield from self._replay_problems()
        after_s = self.rebuild_after_s
        if after_s is not None and after_s < (self.checkpoint_s or 0.0):
            yield Problem(
                ("fault_tolerance", "rebuild_after_s"),
                f"is {after_s:g}, and what another copy has saved may be {self.checkpoint_s:g} s old",
                f"at least checkpoint_s = {self.checkpoint_s:g}, or null for never",
            )
        if self.adapt and after_s is None:
            wrong = "is null, and a replica that is started late may have to begin anew"
            yield Problem(("fault_tolerance", "rebuild_after_s"), wrong, "seconds, or no fault_tolerance.adapt")
        if not self.reconcile and self.tentative_after_ms is None:
            wrong = "is false, and without tentative output there is nothing to reconcile"
            yield Problem(("fault_tolerance", "reconcile"), wrong, "fault_tolerance.tentative_after_ms beside it")
        yield from self._budget_problems(shape)
        for position, name in enumerate(self.replicate):
            yield from self._replica_problems(("fault_tolerance", "replicate", position), name, shape)
        if self.plan is not None:
            yield from self._plan_problems(self.plan, shape)

    def _feedback_problems(self, shape: Shape) -> Iterator[Problem]:
        """Feedback that is taken whenever it comes, and what would need a window without it."""
        at = ("fault_tolerance", "scheme")
        for edge in shape.edges:
            if edge.is_free:
                wrong = f"is partially_active, and {edge.name} feeds back under asp: no window says when that comes in"
                fix = "set its consistency to bsp or ssp, or fault_tolerance.scheme to barrier"
                yield Problem(at, wrong, "an exact scheme for that, or feedback that is awaited", fix)
        if not (back := [edge.name for edge in shape.edges if edge.feedback]):
            return
        if self.tentative_after_ms is not None:
            wrong = f"is given, and {back[0]} feeds back: who waits for feedback cannot go on without its sender"
            yield Problem(("fault_tolerance", "tentative_after_ms"), wrong, "no feedback, or no tentative output")
        if self.checkpoint_s is None:
            wrong = f"is null, and {back[0]} feeds back: what that has led to depends on all of the input"
            yield Problem(("fault_tolerance", "checkpoint_s"), wrong, "checkpoint_s in seconds for that")

    def _replay_problems(self) -> Iterator[Problem]:
        """Neither checkpoints nor a replay, or both; or what would need a state that is whole."""
        at = ("fault_tolerance", "replay_s")
        if self.checkpoint_s is not None:
            if self.replay_s is not None:
                yield Problem(at, f"is {self.replay_s:g}, and checkpoint_s {self.checkpoint_s:g}", "one of the two")
            return
        if self.replay_s is None:
            yield Problem(at, "is missing, and checkpoint_s is null", "the seconds of input that a state depends on")
        for key in ("replicate", "plan", "budget", "adapt", "tentative_after_ms"):
            if getattr(self, key):
                wrong = "is given, and checkpoint_s is null: who starts again has no whole state"
                yield Problem(("fault_tolerance", key), wrong, "checkpoint_s in seconds for that")

    def chosen(self, shape: Shape) -> dict[str, Any]:
        """The replicas of the plan."""
        if self.plan is None:
            return {}
        return {"replicate": PlanFile(self.plan).tasks, "plan": None}

    def _budget_problems(self, shape: Shape) -> Iterator[Problem]:
        """More than the tasks that can have one, or beside replicas that are named."""
        at = ("fault_tolerance", "budget")
        if self.budget is None:
            if self.planner != "auto":
                wrong = f"is {self.planner}, and there is no budget to plan for"
                yield Problem(("fault_tolerance", "planner"), wrong, "a budget beside it")
            return
        for key in ("replicate", "plan"):
            if getattr(self, key):
                yield Problem(at, f"is given beside {key}", "one of replicate, plan, budget")
        try:
            replicas_allowed(str(self.budget), replaceable(shape, vars(self)))
        except ConfigError as error:
            yield Problem(at, f"is {self.budget}: {error.args[0]}", BUDGET)

    def _plan_problems(self, path: str, shape: Shape) -> Iterator[Problem]:
        """A file that is no plan, or one for another topology."""
        at, fix = ("fault_tolerance", "plan"), "plan once more for this topology: riprap plan TOPOLOGY --budget N"
        if self.replicate:
            yield Problem(at, "is given beside replicate", "one of replicate, plan, budget")
            return
        try:
            plan = PlanFile(path)
        except ConfigError as error:
            yield Problem(at, f"{path} {error.args[0]}", "a plan.json of this topology", error.remedy)
            return
        if differences := list(plan.differences(shape)):
            yield Problem(at, f"{path} is of another topology: {'; '.join(differences)}", "a plan of this one", fix)
        why, _ = why_destinations_have_none(vars(self))
        for task in plan.tasks if not differences else ():
            stage, _, index = task.partition(".")
            if index not in map(str, range(shape.parallelism.get(stage, 0))):
                yield Problem(at, f"{path} names {task}, and there is no such task", "a plan of this topology", fix)
            elif why and stage in shape.sinks:
                yield Problem(at, f"{path} names {task}, a destination, and {why}", "a plan of this topology", fix)

    def _replica_problems(self, at: FieldPath, name: str, shape: Shape) -> Iterator[Problem]:
        """A name of nobody, or of a destination that can have none."""
        stages, (why, instead) = [*shape.parallelism], why_destinations_have_none(vars(self))
        stage, _, index = name.partition(".")
        if stage not in stages or (index and index not in map(str, range(shape.parallelism[stage]))):
            wrong = f"is {name}, and there is no such stage or task"
            yield Problem(at, wrong, f"stages or tasks of {', '.join(stages)}: {stages[0]} or {stages[0]}.0")
        elif why and stage in shape.sinks:
            wrong = f"is {name}, a destination, and {why}"
            yield Problem(at, wrong, f"stages or tasks before the destinations, or {instead}")


class Checkpoints(Saving):
    """Consistent checkpoints of the whole job, to which all go back after a loss. Times are in milliseconds."""

    together: ClassVar[str] = "takes checkpoints of all stages together"

    interval_ms: float = Field(default=1000, gt=0, le=86_400_000, allow_inf_nan=False)
    min_pause_ms: float = Field(default=0, ge=0, le=86_400_000, allow_inf_nan=False)
    timeout_ms: float = Field(default=60_000, gt=0, le=86_400_000, allow_inf_nan=False)
    tolerated_failures: int = Field(default=3, ge=0)


class BarrierOptions(Checkpoints, Keeping):
    """Barriers part what a checkpoint includes from the rest, and nobody stops (ABS)."""

    scheme: Literal["barrier"]
    alignment: Literal["aligned", "unaligned", "timeout"] = "aligned"
    alignment_timeout_ms: float = Field(default=100, gt=0, le=86_400_000, allow_inf_nan=False)
    debloat_ms: float | None = Field(default=100, gt=0, le=86_400_000, allow_inf_nan=False)
    """So much waits before a task as it processes in this time, for barriers queue behind that; null: no such limit."""
    guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    recovery: Literal["global", "local"] = "global"
    """After a loss all tasks go back, or the lost one alone (after Clonos), for which senders keep what they sent."""

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """Links that do not wait need no other alignment; one task goes back alone where their order says all."""
        if self.guarantee == "at_least_once" and self.alignment != "aligned":
            wrong = f"is at_least_once, and alignment is {self.alignment}"
            yield Problem(("fault_tolerance", "guarantee"), wrong, "exactly_once for that, or alignment: aligned")
        if self.recovery == "local":
            yield from self._local_problems(shape)

    def _local_problems(self, shape: Shape) -> Iterator[Problem]:
        where, fix = ("fault_tolerance", "recovery"), "set fault_tolerance.recovery to global"
        if self.alignment != "aligned":
            wrong = f"is local, and alignment is {self.alignment}: what overtakes blocks has no place in their order"
            yield Problem(where, wrong, "global for that, or alignment: aligned", fix)
        if self.guarantee != "exactly_once":
            wrong = "is local, and guarantee is at_least_once: one task alone cannot take anything twice"
            yield Problem(where, wrong, "global for that, or guarantee: exactly_once", fix)
        for edge in shape.edges:
            if edge.feedback:
                wrong = f"is local, and {edge.name} leads back: each task of a circle sends what the others wait for"
                yield Problem(where, wrong, "global for that", fix)


class StopTheWorldOptions(Checkpoints):
    """All wait until the checkpoint is whole (Naiad's way, in ABS 6.0.4); to compare with."""

    scheme: Literal["stop_the_world"]


class OptimisticOptions(Checkpoints):
    """Checkpoints outside loops alone; after a loss loops go on from what the others had found (ABS 6.0.4)."""

    scheme: Literal["optimistic"]
    timeout_ms: float = Field(default=86_400_000, gt=0, le=86_400_000, allow_inf_nan=False)
    """A checkpoint waits for the end of loops, and may have to for long."""

    def problems(self, shape: Shape) -> Iterator[Problem]:
        """Without a loop there is nothing to keep."""
        if not any(edge.loop for edge in shape.edges):
            yield Problem(
                ("fault_tolerance", "scheme"),
                "is optimistic, but no edge is a loop",
                "an edge from a stage to itself with loop: true",
                "set fault_tolerance.scheme to barrier, which differs within loops alone",
            )


FaultTolerance = Annotated[
    NoScheme
    | Erasure
    | Replication
    | Reactive
    | ApproximateOptions
    | MiniBatchOptions
    | UpstreamBackupOptions
    | BarrierOptions
    | OptimisticOptions
    | PartiallyActiveOptions
    | StopTheWorldOptions,
    Field(discriminator="scheme"),
]

SCHEMES: dict[str, type[SchemeOptions]] = {
    get_args(model.model_fields["scheme"].annotation)[0]: model for model in get_args(get_args(FaultTolerance)[0])
}


def read_options(section: Mapping[str, Any]) -> SchemeOptions:
    """The options of a sound section, with its defaults."""
    return SCHEMES[section["scheme"]].model_validate(dict(section))
