"""Answers to new incarnations of senders: how far what they send has come."""

from __future__ import annotations

from riprap.codec.blocks import Block, Kind
from riprap.codec.ids import Epoch, WorkerId
from riprap.engine.flow.layout import Joint, Layout
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import TaskProgress, link_key
from riprap.engine.flow.scheme import Scheme


class Answers:
    """Those that a task owes."""

    def __init__(self, layout: Layout, port: Port, progress: TaskProgress) -> None:
        self._layout, self._port, self._progress = layout, port, progress
        self._owed: list[tuple[Joint, WorkerId]] = []

    def __bool__(self) -> bool:
        return bool(self._owed)

    def owe(self, worker: WorkerId) -> None:
        """A new incarnation of this worker is up."""
        self._owed += [(joint, worker) for joint in self._layout.inputs if worker in joint.workers]

    def forgive(self, worker: WorkerId) -> None:
        """It is down."""
        self._owed = [(joint, sender) for joint, sender in self._owed if sender != worker]

    def give(self, scheme: Scheme) -> None:
        """Only what is safe here is said to have come: the sender may not be able to send it once more."""
        owed, self._owed = self._owed, []
        for joint, worker in owed:
            link = link_key(joint.edge, worker)
            meta = {"heard": self._progress.heard[link].pack()}
            heard = Block(Kind.REPLY, Epoch(0), arrays=scheme.told(link), meta=meta)
            if not scheme.settled(link) or not self._port.send(joint.reply, worker, heard):
                self._owed.append((joint, worker))
