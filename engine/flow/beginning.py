"""The start of a task that goes on from a savepoint, in place of nothing."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from typing import NamedTuple

from riprap.codec.errors import JobFailed
from riprap.codec.ids import WorkerId
from riprap.codec.key_groups import GROUPS
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.progress import At, LinkKey, TaskProgress, number_of
from riprap.operators.states.base import Backup, State


class Beginning(NamedTuple):
    """The progress and state that a task begins with, and what is on its way to it."""

    progress: TaskProgress
    backups: Sequence[Backup]
    """Of the state: that of the task of this name; or, with `groups`, those of all tasks that the stage had."""
    groups: range | None
    """The key groups that are this task's, where the stage had another number of tasks."""
    entries: Sequence[Entry]
    items: int
    """At a destination: the items of all windows that are closed."""
    names: Sequence[str]
    """Of transactions that the savepoint commits, though its job may have ended before it did."""
    gone: Sequence[WorkerId] = ()
    """The tasks that the stage has no more; what they left behind is this task's to drop."""

    @property
    def nbytes(self) -> int:
        """The size of the state, where keys are dealt out evenly."""
        backups, share = (self.backups[:1], 1.0) if self.groups is None else (self.backups, len(self.groups) / GROUPS)
        return int(share * sum(array.nbytes for backup in backups for array in backup.arrays))

    def load(self, stage: str, state: State | None) -> None:
        """Have a new state take over what is its own. JobFailed where it cannot."""
        if state is None:
            return
        try:
            if self.groups is None:
                state.recover_state(self.backups[0])
            else:
                state.recover_groups(self.backups, self.groups)
        except (ValueError, IndexError) as error:
            raise JobFailed(
                f"the state of stage {stage} does not take over that of the savepoint: {error}",
                "begin from it with the operator and options that made it, or with its number of tasks",
            ) from error


def keep_what_is_left(
    held: Mapping[LinkKey, MutableSequence[Entry]], restored: Sequence[Entry], progress: TaskProgress
) -> None:
    """A later incarnation of such a task was restored. Of what was on its way to the task, a part may have been
    processed before, and another saved. The rest waits as at first, and has come: nobody else has it."""
    saved = {(entry.link, number_of(entry.block)) for entry in restored}
    for link, entries in held.items():
        done, heard = progress.last_included(link), progress.heard[link]
        for entry in [*entries]:
            number = number_of(entry.block)
            if number <= done or (link, number) in saved:
                entries.remove(entry)
            else:
                heard.at = max(heard.at, At.behind(entry.block))
