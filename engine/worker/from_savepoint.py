"""A task's beginning in a savepoint, also where its stage, or one that it is joined to, has another number of tasks.

Links begin anew: what was sent on them before is part of the states, but for the few blocks that were on their way,
which are the first of their links now. Keys that another number of tasks shares go by their groups (state and routing
of Castro Fernandez et al., 2013, seed 3.3 and 4.2.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from riprap.backupserver.savepoint import Savepoint, TaskPart, read_savepoint
from riprap.codec.errors import JobFailed
from riprap.codec.ids import WorkerId
from riprap.codec.key_groups import GROUPS
from riprap.configs.topology import Topology
from riprap.engine.flow.beginning import Beginning
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.event_time import joined
from riprap.engine.flow.layout import Joint, Layout
from riprap.engine.flow.progress import INPUT, NOWHERE, At, Cause, Heard, LinkKey, TaskProgress, link_key
from riprap.engine.schemes.parts.recorder import block_of, restored
from riprap.operators.states.base import Backup

BEGINNING: LinkKey = (2**31 + 2, 0)
"""The cause of what was on its way: nothing that will be sent has it."""


class FormerTasks:
    """A savepoint's part for one task of a new job."""

    def __init__(self, savepoint: Savepoint, former: Topology, topology: Topology, layout: Layout) -> None:
        self.savepoint, self.layout, self.me = savepoint, layout, layout.me
        self._former = former
        edges = {(edge.upstream, edge.downstream, edge.feedback): edge.index for edge in former.edges}
        self._was = {
            edge.index: edges.get((edge.upstream, edge.downstream, edge.feedback), -1) for edge in topology.edges
        }
        self._tasks = {name: stage.parallelism for name, stage in topology.stages.items()}
        self.same = self._is_same(self.me.stage)
        self._workers = [self.me.primary] if self.same else former.tasks(self.me.stage)
        self.parts = [savepoint.part(worker) for worker in self._workers]
        self.progress = [TaskProgress.unpack(dict(part.meta["progress"])) for part in self.parts]

    def beginning(self) -> Beginning:
        """This task's beginning. JobFailed where the savepoint has nothing that fits."""
        entries = list(self._entries())
        progress = self._begun(entries)
        groups = None if self.same else groups_of_task(self.me.index, self._tasks[self.me.stage])
        accounted = sum(int(part.meta["notes"].get("items", 0)) for part in self.parts)
        is_heir = self.same or self.me.index == 0  # of what cannot be parted
        backups = [_backup(part) for part in self.parts]
        gone = [worker for worker in self._workers if self._is_gone(worker)] if is_heir else []
        return Beginning(progress, backups, groups, entries, accounted if is_heir else 0, list(self._names()), gone)

    def _names(self) -> Iterator[str]:
        """Of the transactions that this task commits: those of the task of its name, before it may drop them as left by
        a former incarnation. The first task commits those of tasks that are no more."""
        for worker, part in zip(self._workers, self.parts, strict=True):
            if self.me.index == (0 if self._is_gone(worker) else worker.index):
                yield from (name for _, name in part.meta["names"])

    def _is_gone(self, worker: WorkerId) -> bool:
        return worker.index >= self._tasks[worker.stage]

    def _is_same(self, stage: str) -> bool:
        return self.savepoint.tasks(stage) == self._tasks[stage]

    def _begun(self, entries: Iterable[Entry]) -> TaskProgress:
        progress = TaskProgress(
            epoch=self._agreed(one.epoch for one in self.progress),
            last=all(one.last for one in self.progress),
            final=max(one.final for one in self.progress),
        )
        for joint in self.layout.inputs:
            for worker in joint.workers:
                link = link_key(joint.edge, worker)
                progress.heard[link] = Heard()
                if joint.feedback:
                    progress.feedback[link] = min(one.feedback.get(self._old(link), 0) for one in self.progress)
                else:
                    closed = progress.closed[link] = self._closed(joint, link)
                    told = min(closed, self._ended(worker)) if self._is_same(joint.stage) else closed
                    progress.heard[link].closed = told
        for entry in entries:
            heard = progress.heard[entry.link]
            heard.at = At.behind(entry.block)
        if self.same or self.me.index == 0:
            progress.windows = _added(one.windows for one in self.progress)
        if self.same and self.layout.is_source:
            (own,) = self.progress
            progress.done = {INPUT: own.done[INPUT]} if INPUT in own.done else {}
            progress.closed |= {INPUT: own.closed[INPUT]} if INPUT in own.closed else {}
            progress.source = own.source
        progress.sent = dict(self._sent())
        same = [joint for joint in self.layout.inputs if not joint.feedback and self._is_same(joint.stage)]
        links = [link_key(joint.edge, worker) for joint in same for worker in joint.workers]
        progress.times = joined([one.times for one in self.progress], {link: self._old(link) for link in links})
        return progress

    def _closed(self, joint: Joint, link: LinkKey) -> int:
        """The last window that a link had closed: the link's own, or that of all its former senders."""
        if self._is_same(joint.stage):
            return self._agreed(one.closed.get(self._old(link), 0) for one in self.progress)
        return self._agreed(self._ended(worker) for worker in self._former.tasks(joint.stage))

    def _ended(self, worker: WorkerId) -> int:
        """The last window that a task had ended. Its receivers may have closed more where items count at least once:
        they hear the ends of these again."""
        return int(self.savepoint.fields(worker)["progress"]["epoch"])

    def _agreed(self, windows: Iterable[int]) -> int:
        """The window at which all tasks of a stage stood; JobFailed when they stood at several."""
        found = set(windows)
        if len(found) > 1:
            raise JobFailed(
                f"tasks of {self.me.stage}, or of those before it, stood at windows {min(found)} to {max(found)}, so"
                " they cannot be dealt out to another number of tasks",
                "keep the number of tasks of the stages whose edges are not full, or make another savepoint",
            )
        return found.pop()

    def _old(self, link: LinkKey) -> LinkKey:
        return self._was[link[0]], link[1]

    def _entries(self) -> Iterator[Entry]:
        """Entries on the way to this task: the first of its links."""
        new = {old: index for index, old in self._was.items()}
        ends: dict[LinkKey, At] = {}
        for part in self.parts:
            arrays, at = restored(part), part.meta["state"]
            for (edge, task), stage, width, *fields in part.meta["moving"]:
                self._check_moving(stage)
                link = (new[edge], task)
                block = block_of(fields, arrays[at : at + width])
                at += width
                ends[link] = ends.get(link, NOWHERE).put(block, task, self.me.index)
                block.meta["cause"] = Cause(*BEGINNING, 0, ends[link].number)
                yield Entry(0, link, block, stage=stage, acknowledged=True)

    def _check_moving(self, stage: str) -> None:
        if not (self.same and self._is_same(stage)):
            raise JobFailed(
                f"items from {stage} to {self.me.stage} were on their way when the savepoint was made",
                "begin with the same number of tasks of both, or make another savepoint",
            )

    def _sent(self) -> Iterator[tuple[LinkKey, At]]:
        """Up to where each receiver begins with what this task had sent it."""
        for joint in self.layout.outputs:
            if not (self.same and self._is_same(joint.stage)):
                continue
            for worker in joint.workers:
                link = link_key(joint.edge, worker)
                old = [self._was[joint.edge.index], self.me.index]
                moving = [one for one in self.savepoint.fields(worker)["moving"] if list(one[0]) == old]
                if moving:
                    yield link, At(len(moving), sum(int(one[6]) for one in moving))


def beginning_of(topology: Topology, layout: Layout) -> Beginning | None:
    """The beginning of a task; None where the job begins with nothing."""
    if topology.start_from is None:
        return None
    savepoint = read_savepoint(Path(topology.start_from))
    return FormerTasks(savepoint, Topology.from_dict(savepoint.topology), topology, layout).beginning()


def groups_of_task(task: int, tasks: int) -> range:
    """The key groups of a task: those that `dealt` deals to it (codec/key_groups.pyx)."""
    return range(-(-task * GROUPS // tasks), -(-(task + 1) * GROUPS // tasks))


def _backup(part: TaskPart) -> Backup:
    return Backup(True, tuple(restored(part)[: part.meta["state"]]))


def _added(windows: Iterable[Mapping[int, tuple[int, float]]]) -> dict[int, tuple[int, float]]:
    """Items of windows that some links have closed, of all tasks that a stage had."""
    found: dict[int, tuple[int, float]] = {}
    for one in windows:
        for epoch, (items, opened_at) in one.items():
            before, began = found.get(epoch, (0, opened_at))
            found[epoch] = before + items, min(began, opened_at)
    return found
