"""Entries that a source has read before their turn, for helping threads to prepare."""

from __future__ import annotations

from collections import deque

from riprap.engine.flow.entry import Entry
from riprap.engine.flow.pace import Pace
from riprap.engine.flow.port import Port
from riprap.engine.flow.progress import TaskProgress
from riprap.engine.flow.reader import InputReader
from riprap.engine.flow.threads import ComputeThreads


class ReadAhead:
    """Entries without a number yet: only what was received counts, and is read once."""

    def __init__(self, port: Port, progress: TaskProgress) -> None:
        self._port, self._progress = port, progress
        self.entries: deque[Entry] = deque()

    def next(self, reader: InputReader, pace: Pace, threads: ComputeThreads) -> Entry | None:
        """The next block, or the end of a window; as many behind it as the helpers may prepare are read as well. None
        where it is not time, or nothing is there."""
        reader.fill(self._port, self._progress)
        while len(self.entries) <= threads.ahead and reader.may_read:
            if not pace.allows(reader.epoch, self._progress.feedback):
                break
            if wait_s := reader.wait_s(self._port.now()):
                self._port.alarm(wait_s)
                break
            self.entries.append(reader.entry(self._port.now()))
        threads.begin(self.entries)
        return self.entries.popleft() if self.entries else None

    def clear(self) -> None:
        """Read it all once more."""
        self.entries.clear()
