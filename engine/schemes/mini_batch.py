"""Scheme `mini_batch` (AF 6.1.1, after Spark Streaming): every item and, with each mini-batch, the state are saved.

A mini-batch is a window of the job. Items are processed once they are saved, so that a new incarnation has all that any
output came from, in its order; outputs that have arrived are not sent again. Exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from riprap.codec.blocks import Block
from riprap.engine.flow.entry import Entry
from riprap.engine.flow.scheme import Bench, Scheme
from riprap.engine.schemes.parts.recorder import Recorder, Recovered, take_over


class MiniBatch(Scheme):
    """One task's half. A source saves what it reads like what others receive, for its input need not be replayable."""

    saves = exact = True
    overtakes = False  # so that what was saved in its order of receipt is processed once more in the same order

    def __init__(self, bench: Bench, options: Mapping[str, Any]) -> None:
        super().__init__(bench, options)
        self.recorder = Recorder(bench.port, bench.progress, bench.operator.state)
        self._waiting: deque[Entry] = deque()
        self._saved: deque[Entry] = deque()
        self._durable = 0

    def restore(self, state: Block | None, records: Sequence[Block]) -> list[Entry]:
        recovered = Recovered(state, records)
        take_over(self.bench.progress, recovered, self.bench.operator.state)
        self.recorder.go_on_from(recovered)
        self.bench.outlet.put_back(recovered.extras)
        self.bench.operator.recovered(0.0, 0)
        return recovered.unprocessed()

    def on_receive(self, entry: Entry) -> None:
        if entry.record:  # of an input that is logged
            self.recorder.note_saved(entry.block.nbytes)
            return
        self._waiting.append(entry)
        self._save_waiting()

    def _save_waiting(self) -> None:
        while self._waiting and self.recorder.save_block(self._waiting[0]):
            self._saved.append(self._waiting.popleft())

    def may_process(self, entry: Entry) -> bool:
        self.recorder.retry()
        self._save_waiting()
        return not self.recorder.full and entry.record != 0 and entry.record <= self._durable

    def on_window(self, epoch: int) -> None:
        self.recorder.save_state(self.bench.outlet.pending())

    def on_durable(self, number: int) -> None:
        self._durable = number
        self.recorder.retry()
        self._save_waiting()
        while self._saved and self._saved[0].record <= number:
            self.bench.acknowledge(self._saved.popleft())

    @property
    def safe(self) -> bool:
        return not self.recorder.full and self.recorder.state_number <= self._durable
