"""Destinations whose output is committed with the job's checkpoints, in two phases, as Flink's are."""

from __future__ import annotations

from collections.abc import Collection

from riprap.operators.dataflow import DataflowOperator


class TransactionalSink(DataflowOperator):
    """A destination that puts out the items between two checkpoints as one transaction.

    `pre_commit` makes it durable where no reader sees it, and names it; the name is saved with the checkpoint. Once
    that is whole, `commit` makes it visible. A worker that died in between commits again when it is restored, so
    committing twice must do no harm; what the checkpoint does not name is dropped by `abort`. Under schemes without
    checkpoints such an operator is refused.
    """

    def pre_commit(self, checkpoint: int) -> str | None:
        """Make the items since the last call durable and invisible; returns a name, or None where none came.

        Numbers of checkpoints grow and are never used twice, except those of checkpoints that were aborted before the
        job was resumed. Nothing else is called between this and the copy of the state.
        """
        raise NotImplementedError

    def commit(self, name: str) -> None:
        """Make visible the output of that name; it may be visible already. Called in the order of `pre_commit`."""
        raise NotImplementedError

    def abort(self, kept: Collection[str]) -> None:
        """Drop this task's output that is not committed, except for these names: a new incarnation begins.

        Where a job begins from a savepoint with fewer tasks, an operator is opened for each task that is no more, and
        has it dropped in its name.
        """
        raise NotImplementedError
