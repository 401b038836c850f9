"""Answers to senders: how far what they send has come, and whether they are to send it.

A sender's active replicas compute the same as it does, and keep what they put out until they are asked for it (PPA V-B:
their output is switched off). Each receiver asks one of them, and the next when it loses that one: so the output of a
dead task goes on as soon as its receivers know of the death. When a job begins, that is the primary: no replica is told
anything before all are up.
"""

from __future__ import annotations

from typing import Any

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.layout import Joint, Layout
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import LinkKey, TaskProgress, link_key
from riprap.engine.flow.scheme import Scheme


class Answers:
    """Those that a task owes."""

    def __init__(self, layout: Layout, port: Port, progress: TaskProgress) -> None:
        self._layout, self._port, self._progress = layout, port, progress
        self._owed: list[tuple[Joint, WorkerId]] = []
        self._heard: dict[LinkKey, WorkerId] = {}
        """Of links whose sender has replicas, the one that was asked for its output."""
        self.was = 0
        """The last window that had been read, or closed, here when the job was rolled back: sources had read so far."""

    def __bool__(self) -> bool:
        return bool(self._owed)

    def owe(self, worker: WorkerId) -> None:
        """A new incarnation of this worker is up."""
        self._owed += [(joint, worker) for joint in self._layout.inputs if worker in joint.everybody]

    def forgive(self, worker: WorkerId) -> None:
        """It is down; where its output was asked for, another copy is asked now."""
        self._owed = [(joint, sender) for joint, sender in self._owed if sender != worker]
        for joint in self._layout.inputs:
            if worker in joint.everybody and self._heard.get(link_key(joint.edge, worker)) == worker:
                del self._heard[link_key(joint.edge, worker)]
                copies = [one for one in joint.with_copies(worker.primary) if self._port.is_up(one)]
                self._owed += [(joint, one) for one in copies[:1]]

    def _is_asked(self, joint: Joint, worker: WorkerId) -> bool:
        """True when this copy of a sender is the one to send."""
        return not joint.copies or self._heard.setdefault(link_key(joint.edge, worker), worker) == worker

    def give(self, scheme: Scheme, begun: bool) -> None:
        """Only what is safe here is said to have come: the sender may not be able to send it once more. `begun`: all
        workers are up, or were once."""
        owed, self._owed = self._owed, []
        for joint, worker in owed:
            if worker.copy and not begun:
                self._owed.append((joint, worker))
                continue
            link = link_key(joint.edge, worker)
            heard = self._progress.heard[link]
            meta: dict[str, Any] = {"heard": heard.pack()}
            if not self._is_asked(joint, worker):
                meta["silent"] = True
            if (was := max(self.was, self._progress.closed.get(link, 0))) > heard.closed:
                meta["was"] = was  # also of windows that were closed here without it
            told = Block(Kind.REPLY, Epoch(0), arrays=scheme.told(link), meta=meta)
            if not scheme.settled(link) or not self._port.send(joint.reply, worker, told):
                self._owed.append((joint, worker))
