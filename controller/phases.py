"""The phases of a job, the legal moves between them, and the reasons for losing a worker or failing."""

from __future__ import annotations

from enum import StrEnum

from riprap.codec.errors import ConfigError


class Phase(StrEnum):
    """The life of a job. What may happen in a phase stands with it; a wait that outlives its deadline fails the job."""

    SUBMITTED = "SUBMITTED"
    """The job is durable; it waits for an agent. No worker exists."""
    DEPLOYING = "DEPLOYING"
    """First incarnations are assigned and started; workers may die and be replaced. No source emits."""
    RUNNING = "RUNNING"
    """Every worker is up."""
    RECOVERING = "RECOVERING"
    """At least one worker is down or starting; it is replaced, the others keep working."""
    FINISHING = "FINISHING"
    """All sinks are done, and all items committed; workers are told to stop, and are killed at the deadline. Nothing is
    started."""
    CANCELLING = "CANCELLING"
    """The user has cancelled; workers are told to stop, and are killed at the deadline. Nothing is started."""
    COMPLETED = "COMPLETED"
    """All items are committed; workers that remain are killed. Nothing happens any more."""
    CANCELLED = "CANCELLED"
    """Ended by the user. Nothing happens any more."""
    FAILED = "FAILED"
    """Ended by a fault that could not be repaired; `error` and `remedy` say which. Workers that remain are killed."""
    UNREADABLE = "UNREADABLE"
    """Set aside, for what ZooKeeper holds of it cannot be read. Workers that remain are killed."""


ACTIVE = frozenset({Phase.DEPLOYING, Phase.RUNNING, Phase.RECOVERING})
STOPPING = frozenset({Phase.FINISHING, Phase.CANCELLING})
ENDED = frozenset({Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED})
TERMINAL = ENDED | {Phase.UNREADABLE}

MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.SUBMITTED: frozenset({Phase.DEPLOYING, Phase.CANCELLING, Phase.FAILED}),
    Phase.DEPLOYING: frozenset({Phase.RUNNING, Phase.CANCELLING, Phase.FAILED}),
    Phase.RUNNING: frozenset({Phase.RECOVERING, Phase.FINISHING, Phase.CANCELLING, Phase.FAILED}),
    # Sinks can be done while a worker whose work is no longer needed is being replaced.
    Phase.RECOVERING: frozenset({Phase.RUNNING, Phase.FINISHING, Phase.CANCELLING, Phase.FAILED}),
    Phase.FINISHING: frozenset({Phase.COMPLETED}),
    Phase.CANCELLING: frozenset({Phase.CANCELLED}),
    Phase.COMPLETED: frozenset(),
    Phase.CANCELLED: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.UNREADABLE: frozenset(),
}


def name_is_taken(job: str, phase: str) -> ConfigError:
    """The refusal of another job of this name while this one is in that phase."""
    return ConfigError(f"job {job} is {phase} already", f"`riprap cancel {job}`, or submit under another name")


class IllegalMove(AssertionError):
    """A move that the table does not list: a bug in the controller."""


def check_move(old: Phase, new: Phase) -> Phase:
    """Return `new`; raises IllegalMove unless it may follow `old`."""
    if new not in MOVES[old]:
        raise IllegalMove(f"a job cannot go from {old} to {new}")
    return new


class FailureReason(StrEnum):
    """The reason why a worker was declared lost."""

    EXITED = "exited"
    """The process ended by itself, without having been told to stop."""
    KILLED = "killed by signal"
    """The process was ended by a signal."""
    HEARTBEAT = "heartbeat missed"
    """The process runs, or its agent cannot say, but it did not answer for the heartbeat timeout."""
    HOST_GONE = "host gone"
    """The ZooKeeper session of the host's agent ended, or another instance of the agent took its place."""
    NOT_STARTED = "not started"
    """The agent could not start the process."""


class EndReason(StrEnum):
    """The reason why a job failed."""

    WORKER = "worker failed"
    """A worker reported an error that a restart would raise again: its operator's, or one that it has met itself."""
    START_UP = "start-up deadline"
    """A worker's process did not become ready in time."""
    DEPLOYMENT = "deployment deadline"
    """The first incarnations were not all up in time."""
    RECOVERY = "recovery deadline"
    """A lost worker was not replaced in time."""
    STALL = "stall deadline"
    """All workers are up, and still no sink has committed an epoch for too long."""
    INCOMPLETE = "incomplete"
    """All sinks said that they are done, and what they have committed is not the whole stream."""
    CHECKPOINTS = "checkpoints failed"
    """Too many checkpoints in a row were not whole in time."""
    STORM = "restart storm"
    """A worker died again and again without processing an item."""
    UNRECOVERABLE = "unrecoverable loss"
    """The scheme's plan cannot restore what was lost."""
